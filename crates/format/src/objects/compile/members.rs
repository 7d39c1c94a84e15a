//! Compilation of the members of a class, one element of its streamer info at a time.

use std::collections::HashMap;
use std::sync::Arc;

use crate::classes::cpp_type::CppType;
use crate::classes::streamer::{ClassInfo, Element};
use crate::error::{FormatError, Result};
use crate::layout::form::Form;
use crate::layout::steps::{flattened, Block, Convert, Counted, Counter, Enumerated, Loop, Step, TextLength, Version};
use crate::marks::ENTRY_BYTES_MAX;
use crate::numbers::member_kind::{MemberKind, Times};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

use super::compiler::{unsupported, Compiler};
use super::piece::Piece;

/// Names of the `std::array` member that holds the elements, in libstdc++ and libc++.
const STD_ARRAY_MEMBERS: [&str; 2] = ["_M_elems", "__elems_"];

/// A compiled element of a streamer info.
#[derive(Debug, Clone)]
pub(crate) struct Member<'i> {
    element: &'i Element,
    steps: Vec<Step>,
    /// Columns of the member: usually one, several for a base class, none for a member that is not stored.
    pub(crate) forms: Vec<(String, Form)>,
}

impl Member<'_> {
    /// The member as a single column. The members of a base class become a record. None if the member is not stored.
    pub(crate) fn single(self, name: &str) -> Option<Piece> {
        let is_own = matches!(self.forms.as_slice(), [(own, _)] if own == name);
        if self.steps.is_empty() {
            return None;
        }
        let form = match self.forms.into_iter() {
            mut forms if is_own => forms.next()?.1,
            forms => Form::Record { class_name: Some(name.to_string()), members: forms.collect() },
        };
        Some(Piece { steps: self.steps, form })
    }
}

/// The compiled members of a class.
#[derive(Debug, Default)]
pub(crate) struct Members<'i> {
    all: Vec<Member<'i>>,
}

impl Members<'_> {
    pub(crate) fn steps(&self) -> Vec<Step> {
        self.all.iter().flat_map(|member| member.steps.iter().cloned()).collect()
    }

    /// The record of a class. If several members have the same name, all except the last are prefixed with the name of
    /// their base class. A `std::array` becomes an array of its elements.
    pub(crate) fn record(&self, class_name: &str) -> Form {
        if let ([Member { forms, .. }], true) = (self.all.as_slice(), CppType::is_std_array(class_name))
            && let [(name, form)] = forms.as_slice()
            && STD_ARRAY_MEMBERS.contains(&name.as_str())
        {
            return form.clone();
        }
        let mut members: Vec<(String, Form)> = Vec::new();
        let mut places: HashMap<String, (usize, &str)> = HashMap::new();
        for member in &self.all {
            for (name, form) in &member.forms {
                if let Some((before, owner)) = places.insert(name.clone(), (members.len(), &member.element.name)) {
                    members[before].0 = format!("{owner}.{name}");
                }
                members.push((name.clone(), form.clone()));
            }
        }
        Form::Record { class_name: Some(class_name.to_string()), members }
    }

    /// The numeric member with this name, as a counter; None if the class has no such member.
    fn counter(&self, name: &str) -> Option<Counter> {
        let forms = self.all.iter().rev().flat_map(|member| member.forms.iter().rev());
        forms.filter(|(own, _)| own == name).find_map(|(_, form)| match form {
            Form::Flat { scalar, slot } => Some(Counter { slot: *slot, number: scalar.number() }),
            Form::Regular { .. }
            | Form::List { .. }
            | Form::Text { .. }
            | Form::Record { .. }
            | Form::Tuple(_)
            | Form::Pointer { .. } => None,
        })
    }
}

pub(super) fn version_of(info: &ClassInfo, members: &Members<'_>) -> Version {
    let steps = members.steps();
    let mut members = flattened(&steps);
    pack_enumerations(&mut members);
    Version { version: info.version, checksum: info.checksum, steps, members }
}

impl Compiler<'_> {
    pub(super) fn members<'i>(&mut self, info: &'i ClassInfo) -> Result<Members<'i>> {
        let mut members = Members::default();
        for element in &info.elements {
            let named = |error: crate::error::FormatError| error.in_object(format!("{}::{}", info.name, element.name));
            let member = self.member(element, &members).map_err(named)?;
            members.all.push(member);
        }
        Ok(members)
    }

    pub(crate) fn member<'i>(&mut self, element: &'i Element, before: &Members<'_>) -> Result<Member<'i>> {
        self.count_member()?;
        if element.kind() == MemberKind::Base || element.type_name == "BASE" {
            return self.base(element);
        }
        let length = element.array_length.max(1);
        if length > ENTRY_BYTES_MAX {
            return Err(FormatError::damaged(0, "it exceeds the maximum entry size of 1 GiB"));
        }
        let steps_and_form = self.piece(element, length, before)?;
        let (steps, forms) = match steps_and_form {
            Some(piece) => (piece.steps, vec![(element.name.clone(), piece.form)]),
            None => (Vec::new(), Vec::new()),
        };
        Ok(Member { element, steps, forms })
    }

    fn base<'i>(&mut self, element: &'i Element) -> Result<Member<'i>> {
        let version = Some(element.base_version).filter(|version| *version > 0);
        let mut piece = match CppType::parse(&element.name) {
            _ if element.name == "TObject" => self.tobject(),
            Some(of_type) if of_type.is_container() => self.headed(&of_type, 1)?,
            _ => self.class(&element.name, version)?,
        };
        if let [Step::Object(object)] = piece.steps.as_mut_slice() {
            Arc::make_mut(object).is_base = true;
        }
        let forms = match piece.form {
            Form::Record { members, .. } => members,
            form if element.name.starts_with("TArray") => vec![("fArray".to_string(), form)],
            form => vec![(element.name.clone(), form)],
        };
        Ok(Member { element, steps: piece.steps, forms })
    }

    /// Compile a member; None if the member is not stored.
    fn piece(&mut self, element: &Element, length: usize, before: &Members<'_>) -> Result<Option<Piece>> {
        if self.classes.infos.is_left_out(element) {
            return Ok(None);
        }
        let extents = dimensions(length, &element.dimensions);
        let unknown = || unsupported(format!("members with type code {} are not supported", element.type_code));
        Ok(Some(match element.kind() {
            MemberKind::CharStar => {
                let slot = self.slot(true);
                Piece { steps: vec![Step::Text { slot, length: TextLength::Long }], form: Form::Text { slot } }
            }
            MemberKind::Bits => {
                let (slot, form) = self.flat(Number::U32);
                Piece { steps: vec![Step::Bits { slot }], form }
            }
            MemberKind::Number(scalar) => self.fixed_numbers(scalar, 1)?,
            MemberKind::FixedArray(scalar) if self.classes.infos.may_be_left_out(element) => {
                repeated_form(self.unsure_array(&element.type_name, scalar, length)?, &extents)
            }
            MemberKind::FixedArray(scalar) => repeated_form(self.fixed_numbers(scalar, length)?, &extents),
            MemberKind::CountedArray(scalar) => repeated_form(self.counted(element, scalar, length, before)?, &extents),
            MemberKind::Text(times) => headed_array(self.text(), times, length, &extents).ok_or_else(unknown)?,
            MemberKind::TObject(times) => {
                headed_array(self.streamed("TObject")?, times, length, &extents).ok_or_else(unknown)?
            }
            MemberKind::TNamed(times) => {
                headed_array(self.streamed("TNamed")?, times, length, &extents).ok_or_else(unknown)?
            }
            MemberKind::Object(times) => {
                repeated(self.streamed(class_of(element))?, times, length, &extents).ok_or_else(unknown)?
            }
            MemberKind::Pointer(times) => {
                let pointer = self.of_type(&CppType::Pointer(class_of(element).to_string()))?;
                repeated(pointer, times, length, &extents).ok_or_else(unknown)?
            }
            MemberKind::Container => {
                let mut piece = self.headed(&container_type(element)?, length)?;
                if is_behind_pointer(element) || !extents.is_empty() {
                    pack_enumerations(&mut piece.steps);
                }
                repeated_form(piece, &extents)
            }
            MemberKind::ObjectArray => repeated_form(self.array_of_objects(element, length, before)?, &extents),
            MemberKind::NotStored => return Ok(None),
            MemberKind::Base | MemberKind::OldSeeks | MemberKind::Unknown => return Err(unknown()),
        }))
    }

    fn fixed_numbers(&mut self, scalar: Scalar, length: usize) -> Result<Piece> {
        if scalar.stored_size().max(scalar.size()).saturating_mul(length) > ENTRY_BYTES_MAX {
            return Err(FormatError::damaged(0, "it exceeds the maximum entry size of 1 GiB"));
        }
        let (slot, form) = self.flat(scalar);
        Ok(Piece { steps: vec![Step::Block(Block::numbers(scalar, length, slot))], form })
    }

    /// Compile a fixed-size array of an enumeration of unknown type. ROOT stores the array only if that type is int.
    fn unsure_array(&mut self, class_name: &str, scalar: Scalar, length: usize) -> Result<Piece> {
        let form = self.fixed_numbers(scalar, length)?.form;
        let Form::Flat { slot, scalar } = form else {
            return Err(FormatError::internal("the form of an enumeration array is not numeric"));
        };
        let numbers = Some(Enumerated { slot, scalar, is_known: false, is_packed: false });
        let one = Step::Undescribed { class_name: class_name.to_string(), numbers };
        Ok(Piece { steps: vec![Step::Repeat { count: length, steps: vec![one] }], form: Form::Flat { slot, scalar } })
    }

    fn counter(&self, element: &Element, before: &Members<'_>) -> Result<Counter> {
        let missing =
            || unsupported(format!("its length is stored in {}, which is not an earlier member", element.count_name));
        before.counter(&element.count_name).ok_or_else(missing)
    }

    fn counted(&mut self, element: &Element, scalar: Scalar, arrays: usize, before: &Members<'_>) -> Result<Piece> {
        let counter = self.counter(element, before)?;
        let (slot, content) = self.flat(scalar);
        let list = self.slot(true);
        let counted = Counted { counter, is_triangle: false, has_flag: true, arrays, each: 1, list, slot, scalar };
        let form = Form::List { slot: list, content: Box::new(content) };
        Ok(Piece { steps: vec![Step::Counted(Box::new(counted))], form })
    }

    fn array_of_objects(&mut self, element: &Element, arrays: usize, before: &Members<'_>) -> Result<Piece> {
        let counter = match before.all.is_empty() {
            true => None,
            false => Some(self.counter(element, before)?),
        };
        let class_name = class_of(element);
        let content = match class_name.strip_suffix('*') {
            Some(pointed) => self.of_type(&CppType::Pointer(pointed.trim().to_string()))?,
            None => self.streamed(class_name)?,
        };
        let list = self.slot(true);
        let form = Form::List { slot: list, content: Box::new(content.form) };
        Ok(Piece { steps: vec![Step::Loop(Box::new(Loop { counter, arrays, list, steps: content.steps }))], form })
    }

    /// Compile another version of a class to steps that fill the columns of the most common version. A member with the
    /// same name and type fills the same slot. A number of another type is converted. A missing member becomes empty or
    /// 0.
    pub(super) fn other_version(
        &mut self,
        info: &ClassInfo,
        usual: &ClassInfo,
        usual_members: &Members<'_>,
    ) -> Result<Version> {
        let mut members = Members::default();
        let mut by_name: HashMap<&str, &Member<'_>> = HashMap::with_capacity(usual_members.all.len());
        by_name.extend(usual_members.all.iter().rev().map(|member| (member.element.name.as_str(), member)));
        for element in &info.elements {
            let known = by_name.get(element.name.as_str()).copied();
            let member = match known {
                Some(known) if is_same(known.element, element) => Member { element, ..known.clone() },
                Some(known) => match converted(element, known) {
                    Some(member) => member,
                    None => self.member(element, &members)?,
                },
                None => self.member(element, &members)?,
            };
            members.all.push(member);
        }
        let mut version = version_of(info, &members);
        let mut elements: HashMap<&str, Vec<&Element>> = HashMap::with_capacity(info.elements.len());
        info.elements.iter().for_each(|element| elements.entry(&element.name).or_default().push(element));
        for known in &usual_members.all {
            let same_name = elements.get(known.element.name.as_str()).map_or(&[][..], Vec::as_slice);
            let is_there =
                same_name.iter().any(|element| is_same(known.element, element) || is_number_pair(known, element));
            if !is_there {
                for (_, form) in &known.forms {
                    check_default(form, 1)?;
                    version.steps.push(Step::Default(form.clone()));
                    version.members.push(Step::Default(form.clone()));
                }
            }
        }
        debug_assert!(!std::ptr::eq(info, usual), "the most common version is compiled separately");
        Ok(version)
    }
}

/// Maximum number of values of a missing member. An array length in a streamer info needs a limit, because no bytes in
/// the file back it.
const DEFAULT_VALUES_MAX: usize = 1000;

fn check_default(form: &Form, count: usize) -> Result<()> {
    match form {
        Form::Regular { size, content } => check_default(content, count.saturating_mul(*size)),
        Form::Record { members, .. } => members.iter().try_for_each(|(_, member)| check_default(member, count)),
        Form::Tuple(items) => items.iter().try_for_each(|item| check_default(item, count)),
        Form::Flat { .. } | Form::List { .. } | Form::Text { .. } | Form::Pointer { .. } => match count {
            ..=DEFAULT_VALUES_MAX => Ok(()),
            _ => Err(unsupported("a member that this class version lacks is a long array in another version")),
        },
    }
}

fn is_same(one: &Element, other: &Element) -> bool {
    one.type_code == other.type_code
        && one.type_name == other.type_name
        && one.array_length == other.array_length
        && one.float_range() == other.float_range()
        && one.count_name == other.count_name
}

fn is_number_pair(known: &Member<'_>, element: &Element) -> bool {
    converted(element, known).is_some()
}

/// Compile a number that has a different type in another version of the class.
fn converted<'i>(element: &'i Element, known: &Member<'_>) -> Option<Member<'i>> {
    let scalar = |element: &Element| match element.kind() {
        MemberKind::Number(scalar) | MemberKind::FixedArray(scalar) => Some(scalar),
        MemberKind::Bits => Some(Scalar::Plain(Number::U32)),
        MemberKind::Base
        | MemberKind::CountedArray(_)
        | MemberKind::CharStar
        | MemberKind::Text(_)
        | MemberKind::TObject(_)
        | MemberKind::TNamed(_)
        | MemberKind::Object(_)
        | MemberKind::Pointer(_)
        | MemberKind::Container
        | MemberKind::ObjectArray
        | MemberKind::NotStored
        | MemberKind::OldSeeks
        | MemberKind::Unknown => None,
    };
    scalar(known.element)?;
    let stored = scalar(element)?;
    if element.array_length.max(1) != known.element.array_length.max(1) {
        return None;
    }
    let [(_, form)] = known.forms.as_slice() else { return None };
    let mut bottom = form;
    while let Form::Regular { content, .. } = bottom {
        bottom = content;
    }
    let Form::Flat { scalar, slot } = bottom else { return None };
    let count = element.array_length.max(1);
    let steps = vec![Step::Convert(Convert { stored, count, slot: *slot, number: scalar.number() })];
    Some(Member { element, steps, forms: known.forms.clone() })
}

/// The class name of a member's type, without the asterisk of a pointer.
fn class_of(element: &Element) -> &str {
    let name = element.type_name.trim();
    let name = name.strip_suffix('*').unwrap_or(name).trim();
    name.strip_prefix("const ").unwrap_or(name).trim()
}

/// Whether the member is a pointer to an object or a container.
pub(crate) fn is_behind_pointer(element: &Element) -> bool {
    element.type_name.trim_end().ends_with('*')
}

/// Mark small enumerations in the containers of these members as packed. ROOT packs them only in containers behind a
/// pointer, in an array, or in a memberwise or split collection.
pub(crate) fn pack_enumerations(members: &mut [Step]) {
    for member in members {
        if let Step::Headed { steps, .. } = member
            && let [Step::Collection(collection)] = steps.as_mut_slice()
            && let [Step::Undescribed { numbers: Some(one), .. }] = collection.steps.as_mut_slice()
        {
            one.is_packed = true;
        }
    }
}

/// The type of a container member. The integer type of enumeration elements comes from the streamer info, because files
/// do not describe enumerations.
pub(crate) fn container_type(element: &Element) -> Result<CppType> {
    let of_type = CppType::parse(class_of(element)).ok_or_else(|| unsupported("its type is nested too deeply"))?;
    Ok(with_numbers(of_type, Scalar::of_type_code(element.content_type, None)))
}

/// Replace the unknown element type of a sequence or set by the number type in its streamer info. Enumerations whose
/// size differs from int are not replaced, because ROOT stores them either in their own size or as int.
pub(crate) fn with_numbers(of_type: CppType, content: Option<Scalar>) -> CppType {
    match (of_type, content.filter(|scalar| scalar.stored_size() == size_of::<i32>())) {
        (CppType::Sequence(inner), Some(scalar)) if matches!(*inner, CppType::Class(_)) => {
            CppType::Sequence(Box::new(CppType::Number(scalar)))
        }
        (CppType::Set(inner), Some(scalar)) if matches!(*inner, CppType::Class(_)) => {
            CppType::Set(Box::new(CppType::Number(scalar)))
        }
        (of_type, _) => of_type,
    }
}

fn repeated_form(piece: Piece, extents: &[usize]) -> Piece {
    Piece { steps: piece.steps, form: piece.form.arrays(extents) }
}

/// Compile a fixed-size array of consecutive objects. An array of pointers has the type code of a single pointer. None
/// if type code and array length contradict each other.
fn repeated(piece: Piece, times: Times, length: usize, extents: &[usize]) -> Option<Piece> {
    match (times, extents) {
        (Times::Array, []) => None,
        (Times::One, []) => Some(piece),
        _ => {
            let steps = vec![Step::Repeat { count: length, steps: piece.steps }];
            Some(Piece { steps, form: piece.form.arrays(extents) })
        }
    }
}

/// Compile a fixed-size array of objects without headers. One header precedes the whole array. None if type code and
/// array length contradict each other.
fn headed_array(piece: Piece, times: Times, length: usize, extents: &[usize]) -> Option<Piece> {
    match times {
        _ if (times == Times::Array) == extents.is_empty() => None,
        Times::One => Some(piece),
        Times::Array => {
            let steps = vec![Step::Headed { count: length, steps: piece.steps }];
            Some(Piece { steps, form: piece.form.arrays(extents) })
        }
    }
}

/// Maximum number of array dimensions. Arrays with more dimensions are read as one-dimensional.
const DIMENSIONS_MAX: usize = 16;

/// The dimensions of an array: the declared dimensions if their product is the array length, otherwise the length
/// alone.
pub(crate) fn dimensions(length: usize, declared: &[usize]) -> Vec<usize> {
    let length = length.max(1);
    let product = declared.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent));
    match product {
        Some(product) if product == length && (1..=DIMENSIONS_MAX).contains(&declared.len()) => declared.to_vec(),
        _ if length > 1 => vec![length],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_beyond_sense_become_one() {
        assert_eq!(dimensions(6, &[vec![2, 3], vec![1; 100_000]].concat()), vec![6]);
        assert_eq!(dimensions(0, &[0]), Vec::<usize>::new());
    }

    #[test]
    fn dimensions_that_do_not_agree_with_the_length_are_merged() {
        assert_eq!(dimensions(6, &[2, 3]), vec![2, 3]);
        assert_eq!(dimensions(6, &[2]), vec![6]);
        assert_eq!(dimensions(1, &[]), Vec::<usize>::new());
    }
}
