//! Streamer infos compiled to steps: how each member is read, and whether the visitor wants it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::classes::class_info::Element;
use crate::classes::streamer::ClassInfos;
use crate::cursor::{Cursor, VersionHeader};
use crate::error::Result;
use crate::numbers::member_kind::{MemberKind, Times};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

use super::description::{self, Description};

/// The place of a class in [`Programs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassId(usize);

/// A member that holds the length of arrays, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CounterId(usize);

/// What one step reads.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// Bytes that are skipped.
    Skip(usize),
    /// A number, which may count arrays.
    Number(Number, Option<CounterId>),
    /// A TString.
    Text,
    /// A length of four bytes and the letters.
    LongText,
    /// A byte that is 0 for a null pointer, and the numbers; another member holds their count.
    CountedArray(Scalar, CounterId),
    /// Offsets of baskets in an old TBranch: a byte with the width of a number (2: eight bytes, else four), and the
    /// numbers.
    OldSeeks(CounterId),
    /// A TObject, as a base class or a member.
    Object,
    /// Another base class, whose numbers may count arrays of this class.
    Base(ClassId),
    /// Objects, by their class and count.
    Objects(ClassId, usize),
    /// An object or a container with its length, which is stepped over.
    SkipObject,
    /// Pointers, by their count.
    Pointers(usize),
    /// A container of the standard library, or an object with a streamer of its own.
    Container,
    /// Objects behind one header, up to its end.
    CountedObjects(ClassId),
    /// A member that is not read.
    Unknown,
}

/// One step through an object.
#[derive(Debug)]
pub(super) struct Step<M> {
    /// The member; the first one of several that are stepped over together.
    pub(super) element: Element,
    /// The visitor's name for the member, if it wants it.
    pub(super) wanted: Option<M>,
    pub(super) action: Action,
}

/// The steps of a class.
#[derive(Debug)]
pub(super) struct Program<M> {
    /// The name of the class, as its description has it.
    pub(super) name: String,
    /// Whether objects may have members behind those of the description.
    pub(super) is_beginning: bool,
    steps: Vec<Step<M>>,
    /// Steps up to the last one that the visitor needs.
    needed_count: usize,
}

impl<M> Program<M> {
    /// The steps to take; those after the last one that is needed only where the object's end is not recorded.
    pub(super) fn steps(&self, end_is_recorded: bool) -> &[Step<M>] {
        if end_is_recorded {
            &self.steps[..self.needed_count]
        } else {
            &self.steps
        }
    }
}

/// How objects of a class are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streamer {
    /// As streamer infos describe it.
    Described,
    /// A TObject, which has no header of its own.
    Object,
    /// A TQObject, of which there is nothing in a file.
    Nothing,
    /// A TString.
    Text,
    /// A TDatime.
    Date,
    /// A TArray of these.
    Numbers(Number),
    /// A TList or what inherits from it.
    List,
    /// A TObjArray.
    PointerArray,
    /// A TMap.
    Map,
    /// A TObjString.
    TextObject,
    /// A TClonesArray.
    Clones,
}

impl Streamer {
    fn of_class(name: &str) -> Self {
        match name {
            "TObject" => Self::Object,
            "TQObject" => Self::Nothing,
            "TString" => Self::Text,
            "TDatime" => Self::Date,
            "TList" | "THashList" | "TSortedList" => Self::List,
            "TObjArray" => Self::PointerArray,
            "TMap" => Self::Map,
            "TObjString" => Self::TextObject,
            "TClonesArray" => Self::Clones,
            _ => Number::of_array_class(name).map_or(Self::Described, Self::Numbers),
        }
    }

    /// Whether objects have a header, which may say where they end.
    fn has_header(self) -> bool {
        match self {
            Self::Object | Self::Nothing | Self::Text | Self::Date | Self::Numbers(_) => false,
            Self::Described | Self::List | Self::PointerArray | Self::Map | Self::TextObject | Self::Clones => true,
        }
    }
}

/// The part of the programs that depends on the visitor.
#[derive(Debug)]
pub(super) struct Purpose<R, M> {
    /// The visitor's name for a member of an object in this role; None if it does not want the member.
    pub(super) wanted: fn(R, &Element, MemberKind) -> Option<M>,
    /// Whether members that are not wanted are walked through, too.
    pub(super) walks_all: bool,
}

/// Programs by class, version and role of the object, compiled when they are first needed.
#[derive(Debug)]
pub(crate) struct Programs<R, M> {
    purpose: Purpose<R, M>,
    classes: Vec<Class<R, M>>,
    by_name: BTreeMap<Arc<str>, ClassId>,
    counters: HashMap<String, CounterId>,
}

#[derive(Debug)]
struct Class<R, M> {
    name: Arc<str>,
    streamer: Streamer,
    /// A class has one version in a file, or few.
    programs: Vec<(ProgramKey<R>, Arc<Program<M>>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ProgramKey<R> {
    role: R,
    version: i16,
    checksum: u32,
    has_end: bool,
}

impl<R: Copy + Eq, M> Programs<R, M> {
    /// Nothing compiled yet.
    pub(super) fn new(purpose: Purpose<R, M>) -> Self {
        Self { purpose, classes: Vec::new(), by_name: BTreeMap::new(), counters: HashMap::new() }
    }

    /// The number of a class.
    pub(super) fn class(&mut self, name: &str) -> ClassId {
        if let Some(known) = self.by_name.get(name) {
            return *known;
        }
        let name: Arc<str> = name.into();
        let class = ClassId(self.classes.len());
        let streamer = Streamer::of_class(&name);
        self.classes.push(Class { name: Arc::clone(&name), streamer, programs: Vec::new() });
        self.by_name.insert(name, class);
        class
    }

    /// The name of a class.
    pub(super) fn name(&self, class: ClassId) -> &Arc<str> {
        &self.classes[class.0].name
    }

    /// How objects of a class are stored.
    pub(super) fn streamer(&self, class: ClassId) -> Streamer {
        self.classes[class.0].streamer
    }

    /// The program of an object whose header was read; None if neither the file nor Branchline describes its class.
    /// All calls must have the same descriptions.
    pub(super) fn get(
        &mut self,
        infos: &ClassInfos,
        class: ClassId,
        role: R,
        header: VersionHeader,
        cursor: &mut Cursor<'_>,
    ) -> Result<Option<Arc<Program<M>>>> {
        let Class { name, programs, .. } = &self.classes[class.0];
        let checksum = description::checksum(infos, name, header, cursor)?;
        let key = ProgramKey { role, version: header.version, checksum, has_end: header.end.is_some() };
        if let Some((_, program)) = programs.iter().find(|(of, _)| *of == key) {
            return Ok(Some(Arc::clone(program)));
        }
        let Some(found) = description::find(infos, name, header, checksum)? else { return Ok(None) };
        let program = Arc::new(self.compile(infos, found, role));
        self.classes[class.0].programs.push((key, Arc::clone(&program)));
        Ok(Some(program))
    }

    fn compile(&mut self, infos: &ClassInfos, description: Description<'_>, role: R) -> Program<M> {
        let Description { info, is_beginning } = description;
        let mut steps: Vec<Step<M>> = Vec::with_capacity(info.elements.len());
        // An array may come from a base class, whose program is compiled later, as may the number that counts it.
        for element in info.elements.iter().filter(|element| !element.count_name.is_empty()) {
            self.counter(&element.count_name);
        }
        for element in &info.elements {
            let kind = element.kind();
            let wanted = (self.purpose.wanted)(role, element, kind);
            let action = self.action(infos, element, kind, wanted.is_some());
            match (steps.last_mut(), action) {
                (Some(Step { wanted: None, action: Action::Skip(before), .. }), Action::Skip(more))
                    if wanted.is_none() =>
                {
                    *before = before.saturating_add(more);
                }
                _ => steps.push(Step { element: element.clone(), wanted, action }),
            }
        }
        let is_needed = |step: &Step<M>| step.wanted.is_some() || matches!(step.action, Action::Base(_));
        let needed_count = match self.purpose.walks_all {
            true => steps.len(),
            false => steps.iter().rposition(is_needed).map_or(0, |last| last + 1),
        };
        Program { name: info.name.clone(), is_beginning, steps, needed_count }
    }

    /// The number of a counter. Programs that were compiled before it was known skip it: they are compiled again.
    fn counter(&mut self, name: &str) -> CounterId {
        if let Some(known) = self.counters.get(name) {
            return *known;
        }
        self.classes.iter_mut().for_each(|class| class.programs.clear());
        let counter = CounterId(self.counters.len());
        self.counters.insert(name.to_string(), counter);
        counter
    }

    fn action(&mut self, infos: &ClassInfos, element: &Element, kind: MemberKind, is_wanted: bool) -> Action {
        let walks_all = self.purpose.walks_all;
        if infos.is_left_out(element) {
            return Action::Skip(0);
        }
        match kind {
            MemberKind::Base if element.name == "TObject" => Action::Object,
            MemberKind::Base => Action::Base(self.class(&element.name)),
            MemberKind::TObject(Times::One) => Action::Object,
            MemberKind::TNamed(Times::One) => Action::Base(self.class("TNamed")),
            MemberKind::Number(Scalar::Plain(number)) => match self.counters.get(element.name.as_str()) {
                None if !is_wanted => Action::Skip(number.size()),
                counter => Action::Number(number, counter.copied()),
            },
            MemberKind::Bits if is_wanted => Action::Number(Number::U32, None),
            MemberKind::Bits => Action::Skip(Number::U32.size()),
            MemberKind::Number(scalar) => Action::Skip(scalar.stored_size()),
            MemberKind::FixedArray(scalar) => Action::Skip(scalar.stored_size().saturating_mul(element.array_length)),
            MemberKind::CountedArray(scalar) => Action::CountedArray(scalar, self.counter(&element.count_name)),
            MemberKind::OldSeeks => Action::OldSeeks(self.counter(&element.count_name)),
            MemberKind::Text(Times::One) => Action::Text,
            MemberKind::CharStar => Action::LongText,
            MemberKind::Object(times) => {
                let class = self.class(element.type_name.trim_end_matches('*'));
                let is_stepped_over = !walks_all && !is_wanted && self.streamer(class).has_header();
                match times {
                    Times::One if element.array_length > 1 => Action::Objects(class, element.array_length),
                    Times::One if is_stepped_over => Action::SkipObject,
                    Times::One => Action::Objects(class, 1),
                    // A file may say that there are any number of them.
                    Times::Array if self.streamer(class) == Streamer::Nothing => Action::Skip(0),
                    Times::Array => Action::Objects(class, element.array_length),
                }
            }
            MemberKind::Pointer(_) => Action::Pointers(element.array_length.max(1)),
            MemberKind::Container if walks_all => Action::Container,
            MemberKind::Container => Action::SkipObject,
            MemberKind::Text(Times::Array) | MemberKind::TObject(Times::Array) => Action::Unknown,
            // Pointers to pointers are stored in another way.
            MemberKind::ObjectArray if walks_all && !element.type_name.ends_with("**") => {
                Action::CountedObjects(self.class(element.type_name.trim_end_matches('*')))
            }
            MemberKind::TNamed(Times::Array) | MemberKind::ObjectArray => Action::Unknown,
            MemberKind::NotStored | MemberKind::Unknown => Action::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The type code of an object that no pointer points to, in an array (TVirtualStreamerInfo::kObject, kOffsetL).
    const OBJECT_ARRAY: i32 = 61 + 20;

    #[test]
    fn arrays_of_objects_without_bytes_take_no_time() {
        let element = |name: &str| Element {
            type_code: OBJECT_ARRAY,
            array_length: i32::MAX as usize,
            type_name: name.to_owned(),
            ..Element::default()
        };
        let (nothing, dates) = (element("TQObject"), element("TDatime"));
        let infos = ClassInfos::default();
        let mut programs = Programs::<(), ()>::new(Purpose { wanted: |_, _, _| None, walks_all: true });
        let mut count_of = |element: &Element| match programs.action(&infos, element, element.kind(), false) {
            Action::Skip(0) => 0,
            Action::Objects(_, count) => count,
            other => panic!("{other:?}"),
        };
        assert_eq!(count_of(&nothing), 0);
        assert_eq!(count_of(&dates), i32::MAX as usize);
    }
}
