//! Compilation of classes and C++ types to steps.

use crate::classes::cpp_type::CppType;
use crate::classes::streamer::ClassInfo;
use crate::error::Result;
use crate::layout::form::Form;
use crate::layout::steps::{Block, Convert, Enumerated, Header, HeaderKind, Object, Step, Version};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;
use crate::numbers::type_code;

use std::sync::Arc;

use super::compiler::{unsupported, Compiler, DEPTH_MAX};
use super::members::{pack_enumerations, version_of};
use super::piece::Piece;

const PAIR_MEMBERS: [&str; 2] = ["first", "second"];

impl Compiler<'_> {
    /// Compile a separately streamed object of any class, or a separately streamed container.
    pub(crate) fn streamed(&mut self, name: &str) -> Result<Piece> {
        match CppType::parse(name).map(|of_type| self.resolved(of_type)) {
            Some(CppType::Class(name)) => self.class(&name, None),
            Some(CppType::Pointer(_) | CppType::Number(_)) | None => {
                Err(unsupported(format!("objects of type {name} are not supported")))
            }
            Some(of_type) => self.of_type(&of_type),
        }
    }

    /// If the streamer info of a class shows that the class is a container, return the container type; otherwise return
    /// `of_type`.
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

    /// Compile the element type of a container. A class that the file does not describe is an error only once the
    /// container has elements. An enumeration is read as an integer, because files do not describe enumerations.
    fn element(&mut self, of_type: &CppType) -> Result<Piece> {
        let of_type = &self.resolved(of_type.clone());
        match (of_type, self.of_type(of_type)) {
            (CppType::Class(name), Err(_)) if !self.is_described(name) => Ok(self.undescribed_element(name)),
            (_, piece) => piece,
        }
    }

    fn undescribed_element(&mut self, name: &str) -> Piece {
        let class_name = name.to_string();
        // A name with `<` is a template, and a name with a space is a placeholder from `own_container`. Neither is an
        // enumeration.
        let (numbers, form) = match name.contains(['<', ' ']) {
            true => (None, Form::Record { class_name: Some(class_name.clone()), members: Vec::new() }),
            false => {
                let known = self.classes.infos.enumeration(name);
                let scalar = known.unwrap_or(Number::I32.into());
                let (slot, form) = self.flat(scalar);
                (Some(Enumerated { slot, scalar, is_known: known.is_some(), is_packed: false }), form)
            }
        };
        Piece { steps: vec![Step::Undescribed { class_name, numbers }], form }
    }

    fn is_described(&mut self, name: &str) -> bool {
        self.classes.infos.newest(name).is_some() || self.is_special(name)
    }

    /// Compile a type as the content of a container.
    pub(crate) fn of_type(&mut self, of_type: &CppType) -> Result<Piece> {
        if self.path.len() > DEPTH_MAX {
            return Err(unsupported("its classes are nested too deeply"));
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

    /// Compile a map. Keys and values alternate; in a memberwise map, all keys come before all values.
    fn map(&mut self, key: &CppType, value: &CppType) -> Result<Piece> {
        let (first, second) = (self.element(key)?, self.element(value)?);
        let pair = CppType::Pair(Box::new(key.clone()), Box::new(value.clone())).name();
        let steps = [
            self.memberwise_in_map(&pair, PAIR_MEMBERS[0], key, &first),
            self.memberwise_in_map(&pair, PAIR_MEMBERS[1], value, &second),
        ];
        let pair = self.pair_object("std::pair", steps.concat());
        let form = Form::Tuple(vec![first.form, second.form]);
        let in_map = |of_type: &CppType, steps: Vec<Step>| match (of_type, steps.as_slice()) {
            // In maps, TGenCollectionStreamer writes a Float16_t as a 32-bit float.
            (CppType::Number(Scalar::Float16(_)), [Step::Block(block)]) => {
                let slot = block.moves.first().map_or(0, |one| one.slot);
                vec![Step::Block(Block::numbers(Scalar::Plain(Number::F32), 1, slot))]
            }
            _ => steps,
        };
        let steps = [in_map(key, first.steps), in_map(value, second.steps)].concat();
        Ok(self.list(Piece { steps, form }, Some(pair)))
    }

    /// The steps for all keys or all values of a memberwise map. ROOT stores keys and values with the types that the
    /// file's description of the pair declares, where enumerations are ints.
    fn memberwise_in_map(&mut self, pair: &str, member: &str, of_type: &CppType, piece: &Piece) -> Vec<Step> {
        match (self.pair_member(pair, member, of_type), piece.steps.as_slice()) {
            (None, _) => vec![Step::Undescribed { class_name: of_type.name(), numbers: None }],
            (Some(CppType::Number(stored)), [Step::Undescribed { numbers: Some(one), .. }]) => {
                vec![Step::Convert(Convert { stored, count: 1, slot: one.slot, number: one.scalar.number() })]
            }
            (Some(_), steps) => as_member(of_type, steps),
        }
    }

    fn pair(&mut self, name: &str, first: &CppType, second: &CppType) -> Result<Piece> {
        let (mut steps, mut members) = (Vec::new(), Vec::new());
        for (member, of_type) in PAIR_MEMBERS.into_iter().zip([first, second]) {
            let Some(of_type) = self.pair_member(name, member, of_type) else { continue };
            let piece = self.element(&of_type)?;
            steps.extend(as_member(&of_type, &piece.steps));
            members.push((member.to_string(), piece.form));
        }
        let object = self.pair_object(name, steps);
        let form = Form::Record { class_name: Some(name.to_string()), members };
        Ok(Piece { steps: vec![Step::Object(Arc::new(object))], form })
    }

    /// The type of a pair's member. An enumeration is replaced by the integer type that the file's description of the
    /// pair declares. None if the description omits the member: as members, ROOT stores neither 64-bit enumerations
    /// nor containers for which it has no dictionary.
    fn pair_member(&mut self, pair: &str, member: &str, of_type: &CppType) -> Option<CppType> {
        let Some(info) = self.classes.infos.newest(pair) else { return Some(of_type.clone()) };
        let element = info.elements.iter().find(|element| element.name == member)?;
        let stored = Scalar::of_type_code(element.type_code, None);
        match (of_type, stored) {
            (CppType::Class(name), Some(scalar)) if !self.is_described(name) => Some(CppType::Number(scalar)),
            _ => Some(of_type.clone()),
        }
    }

    fn pair_object(&mut self, name: &str, steps: Vec<Step>) -> Object {
        let mut members = steps.clone();
        pack_enumerations(&mut members);
        let versions = vec![Version { version: 1, checksum: 0, steps, members }];
        let header = self.header(name, Header::Foreign);
        Object { class_name: name.to_string(), is_base: false, versions, takes_any: true, header }
    }

    /// Compile the two members of a pair, without the header of the pair.
    pub(crate) fn pair_members(&mut self, name: &str, first: &CppType, second: &CppType) -> Result<Piece> {
        let piece = self.pair(name, first, second)?;
        let steps = match piece.steps.as_slice() {
            [Step::Object(object)] => object.versions.first().map_or_else(Vec::new, |version| version.steps.clone()),
            _ => piece.steps,
        };
        Ok(Piece { steps, form: piece.form })
    }

    /// Compile a member that consists of `count` containers after one shared header.
    pub(crate) fn headed(&mut self, of_type: &CppType, count: usize) -> Result<Piece> {
        let piece = self.of_type(of_type)?;
        Ok(Piece { steps: vec![Step::Headed { count, steps: piece.steps }], form: piece.form })
    }

    /// Compile an object with its header, or in the special format of its class.
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
        // If the file does not describe the class and ROOT has only ever had one version of it, accept any version.
        let takes_any = usual.version == 1 && !infos.describes(name);
        let (members, mut versions) = self.within(name, |compiler| {
            let members = compiler.members(usual)?;
            let versions = vec![version_of(usual, &members)];
            Ok((members, versions))
        })?;
        for info in infos.all(name).filter(|info| !std::ptr::eq(*info, usual)) {
            // Ignore versions that cannot be compiled: an object with such a version is reported when it is read.
            let older = self.within(name, |compiler| compiler.other_version(info, usual, &members));
            versions.extend(older.ok());
        }
        let is_foreign = usual.version == 1 && !takes_any && !infos.inherits(name, "TObject");
        let supposed = if is_foreign { Header::Foreign } else { Header::Versioned };
        let header = self.header(name, supposed);
        let object = Object { class_name: name.to_string(), is_base: false, versions, takes_any, header };
        Ok(Piece { steps: vec![Step::Object(Arc::new(object))], form: members.record(name) })
    }

    /// Compile the members of a class version without a header.
    pub(crate) fn members_only(&mut self, info: &ClassInfo) -> Result<Piece> {
        let members = self.within(&info.name, |compiler| compiler.members(info))?;
        Ok(Piece { steps: members.steps(), form: members.record(&info.name) })
    }
}

/// Convert the steps for a container element to the steps for a member. Containers and std::string have a header only
/// as members.
fn as_member(of_type: &CppType, steps: &[Step]) -> Vec<Step> {
    let steps = steps.to_vec();
    match of_type {
        CppType::Text | CppType::Sequence(_) | CppType::Set(_) | CppType::Map(..) | CppType::Bitset => {
            vec![Step::Headed { count: 1, steps }]
        }
        CppType::Number(_) | CppType::RootText | CppType::Pair(..) | CppType::Pointer(_) | CppType::Class(_) => steps,
    }
}
