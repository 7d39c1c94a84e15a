//! From streamer infos and C++ types to steps.

use crate::classes::streamer::ClassInfo;
use crate::error::Result;
use crate::layout::form::Form;
use crate::layout::steps::{Block, Enumerated, Header, HeaderKind, Object, Step, Version};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code;

use std::sync::Arc;

use super::compiler::{unsupported, Compiler, DEPTH_MAX};
use super::cpp_type::CppType;
use super::members::version_of;
use super::piece::Piece;

impl Compiler<'_> {
    /// An object of any class, or a container, as its own streamer writes it.
    pub(crate) fn streamed(&mut self, name: &str) -> Result<Piece> {
        match CppType::parse(name).map(|of_type| self.resolved(of_type)) {
            Some(CppType::Class(name)) => self.class(&name, None),
            Some(CppType::Pointer(_) | CppType::Number(_)) | None => {
                Err(unsupported(format!("objects of type {name} are not read")))
            }
            Some(of_type) => self.of_type(&of_type),
        }
    }

    /// Turns a class that is a container itself, by its streamer info, into that container.
    pub(crate) fn resolved(&self, of_type: CppType) -> CppType {
        let CppType::Class(name) = &of_type else { return of_type };
        let elements = self.classes.infos.newest(name).map_or(&[][..], |info| &info.elements);
        match elements {
            [only] if only.name == "This" && matches!(only.type_code, type_code::STL | type_code::STREAMER) => {
                CppType::own_container(name)
            }
            _ => of_type,
        }
    }

    /// The element type of a container. A class that the file does not describe is allowed as long as the container is
    /// empty; an enumeration, which no file describes, is a whole number.
    fn element(&mut self, of_type: &CppType) -> Result<Piece> {
        let of_type = &self.resolved(of_type.clone());
        match (of_type, self.of_type(of_type)) {
            (CppType::Class(name), Err(_)) if !self.is_described(name) => Ok(self.undescribed_element(name)),
            (_, piece) => piece,
        }
    }

    fn undescribed_element(&mut self, name: &str) -> Piece {
        let class_name = name.to_string();
        // No enumeration is a template, or what a class holds that is a container itself.
        let (numbers, form) = match name.contains(['<', ' ']) {
            true => (None, Form::Record { class_name: Some(class_name.clone()), members: Vec::new() }),
            false => {
                let known = self.classes.infos.enumeration(name);
                let scalar = known.unwrap_or(Number::I32.into());
                let (slot, form) = self.flat(scalar);
                (Some(Enumerated { slot, scalar, is_known: known.is_some() }), form)
            }
        };
        Piece { steps: vec![Step::Undescribed { class_name, numbers }], form }
    }

    fn is_described(&mut self, name: &str) -> bool {
        self.classes.infos.newest(name).is_some() || self.is_special(name)
    }

    /// Something that a container holds.
    pub(crate) fn of_type(&mut self, of_type: &CppType) -> Result<Piece> {
        if self.path.len() > DEPTH_MAX {
            return Err(unsupported("classes within classes do not end"));
        }
        self.count_member()?;
        Ok(match of_type {
            CppType::Number(scalar) => self.numbers(*scalar),
            CppType::Text | CppType::RootText => self.text(),
            CppType::Bitset => self.list_of_numbers(Number::Bool),
            CppType::Sequence(inner) | CppType::Set(inner) => {
                let content = self.element(inner)?;
                let memberwise = match content.steps.as_slice() {
                    [Step::Object(object)] => Some((**object).clone()),
                    [Step::Undescribed { class_name, .. }] => Some(self.undescribed(class_name)),
                    _ => None,
                };
                self.list(content, memberwise)
            }
            CppType::Map(key, value) => self.map(key, value)?,
            CppType::Pair(first, second) => self.pair(&of_type.name(), first, second)?,
            CppType::Pointer(class_name) => {
                let slot = self.slot(false);
                let form = Form::Pointer { slot, declared: class_name.clone() };
                Piece { steps: vec![Step::Pointer { slot }], form }
            }
            CppType::Class(name) => self.class(name, None)?,
        })
    }

    fn undescribed(&self, class_name: &str) -> Object {
        Object {
            class_name: class_name.to_string(),
            is_base: false,
            versions: Vec::new(),
            takes_any: false,
            header: Arc::new(HeaderKind::supposed(Header::Versioned)),
        }
    }

    /// Keys and values by turns; member by member, they are first all keys and then all values.
    fn map(&mut self, key: &CppType, value: &CppType) -> Result<Piece> {
        let (first, second) = (self.element(key)?, self.element(value)?);
        let pair = self.pair_object("std::pair", [(key, &first), (value, &second)]);
        let form = Form::Tuple(vec![first.form, second.form]);
        let in_map = |of_type: &CppType, steps: Vec<Step>| match (of_type, steps.as_slice()) {
            // TGenCollectionStreamer writes short floats of maps in full.
            (CppType::Number(Scalar::Float16(_)), [Step::Block(block)]) => {
                let slot = block.moves.first().map_or(0, |one| one.slot);
                vec![Step::Block(Block::numbers(Scalar::Plain(Number::F32), 1, slot))]
            }
            _ => steps,
        };
        let steps = [in_map(key, first.steps), in_map(value, second.steps)].concat();
        Ok(self.list(Piece { steps, form }, Some(pair)))
    }

    fn pair(&mut self, name: &str, first: &CppType, second: &CppType) -> Result<Piece> {
        let [first, second] = [self.pair_member(name, 0, first), self.pair_member(name, 1, second)];
        let (one, two) = (self.element(&first)?, self.element(&second)?);
        let object = self.pair_object(name, [(&first, &one), (&second, &two)]);
        let members = vec![("first".to_string(), one.form), ("second".to_string(), two.form)];
        let form = Form::Record { class_name: Some(name.to_string()), members };
        Ok(Piece { steps: vec![Step::Object(Arc::new(object))], form })
    }

    /// The type of a member of a pair, of an enumeration the numbers that the file's description of the pair says.
    fn pair_member(&mut self, pair: &str, index: usize, of_type: &CppType) -> CppType {
        let element = self.classes.infos.newest(pair).and_then(|info| info.elements.get(index));
        let scalar = element.and_then(|element| Scalar::of_type_code(element.type_code, None));
        match (of_type, scalar) {
            (CppType::Class(name), Some(scalar)) if !self.is_described(name) => CppType::Number(scalar),
            _ => of_type.clone(),
        }
    }

    fn pair_object(&mut self, name: &str, members: [(&CppType, &Piece); 2]) -> Object {
        let steps: Vec<Step> = members.iter().flat_map(|(of_type, piece)| as_member(of_type, &piece.steps)).collect();
        let versions = vec![Version { version: 1, checksum: 0, members: steps.clone(), steps }];
        let header = self.header(name, Header::Foreign);
        Object { class_name: name.to_string(), is_base: false, versions, takes_any: true, header }
    }

    /// The two members of a pair, without a header of the pair itself.
    pub(crate) fn pair_members(&mut self, name: &str, first: &CppType, second: &CppType) -> Result<Piece> {
        let piece = self.pair(name, first, second)?;
        let steps = match piece.steps.as_slice() {
            [Step::Object(object)] => object.versions.first().map_or_else(Vec::new, |version| version.steps.clone()),
            _ => piece.steps,
        };
        Ok(Piece { steps, form: piece.form })
    }

    /// A container that is a member, with a header in front of `count` of them.
    pub(crate) fn headed(&mut self, of_type: &CppType, count: usize) -> Result<Piece> {
        let piece = self.of_type(of_type)?;
        Ok(Piece { steps: vec![Step::Headed { count, steps: piece.steps }], form: piece.form })
    }

    /// An object with its header, or what a class has instead of one.
    pub(super) fn class(&mut self, name: &str, version: Option<i32>) -> Result<Piece> {
        if let Some(piece) = self.special(name)? {
            return Ok(piece);
        }
        if self.path.iter().any(|one| one == name) {
            let slot = self.slot(false);
            let form = Form::Pointer { slot, declared: name.to_string() };
            return Ok(Piece { steps: vec![Step::Nested { slot, class_name: name.to_string() }], form });
        }
        let infos = &self.classes.infos;
        let described = version.and_then(|version| infos.get(name, version)).or_else(|| infos.newest(name));
        let usual = described.ok_or_else(|| unsupported(format!("the file does not describe class {name}")))?;
        // A class that the file leaves to ROOT, and of which there has only ever been one version.
        let takes_any = usual.version == 1 && !infos.describes(name);
        let (members, mut versions) = self.within(name, |compiler| {
            let members = compiler.members(usual)?;
            let versions = vec![version_of(usual, &members)];
            Ok((members, versions))
        })?;
        for info in infos.all(name).filter(|info| !std::ptr::eq(*info, usual)) {
            // A version that cannot be compiled is refused when an object has it.
            let older = self.within(name, |compiler| compiler.other_version(info, usual, &members));
            versions.extend(older.ok());
        }
        let is_foreign = usual.version == 1 && !takes_any && !infos.inherits(name, "TObject");
        let supposed = if is_foreign { Header::Foreign } else { Header::Versioned };
        let header = self.header(name, supposed);
        let object = Object { class_name: name.to_string(), is_base: false, versions, takes_any, header };
        Ok(Piece { steps: vec![Step::Object(Arc::new(object))], form: members.record(name) })
    }

    /// The members of a class without a header, in the version that a branch says.
    pub(crate) fn members_only(&mut self, info: &ClassInfo) -> Result<Piece> {
        let members = self.within(&info.name, |compiler| compiler.members(info))?;
        Ok(Piece { steps: members.steps(), form: members.record(&info.name) })
    }
}

/// The steps of something that a container holds, where it is a member instead: containers and std::string have a
/// header then.
fn as_member(of_type: &CppType, steps: &[Step]) -> Vec<Step> {
    let steps = steps.to_vec();
    match of_type {
        CppType::Text | CppType::Sequence(_) | CppType::Set(_) | CppType::Map(..) | CppType::Bitset => {
            vec![Step::Headed { count: 1, steps }]
        }
        CppType::Number(_) | CppType::RootText | CppType::Pair(..) | CppType::Pointer(_) | CppType::Class(_) => steps,
    }
}
