//! Streamer infos compiled to steps. Each step says how to read a member, and whether the visitor needs the member.

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

/// Index of a class in [`Programs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClassId(usize);

/// Index of a counter name. A counter is a member that holds the length of arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CounterId(usize);

/// Action of a step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Action {
    /// Skip this number of bytes.
    Skip(usize),
    /// Read a number. With a counter ID, the number may be the length of arrays.
    Number(Number, Option<CounterId>),
    /// Read a TString.
    Text,
    /// Read a four-byte length and the characters of a `char*`.
    LongText,
    /// Read a flag byte (0 for a null pointer) and an array of numbers whose length is stored in another member.
    CountedArray(Scalar, CounterId),
    /// Read the basket offsets of an old TBranch: a flag byte and the offsets. The flag is 2 for eight-byte offsets;
    /// any other value means four-byte offsets.
    OldSeeks(CounterId),
    /// Read a TObject, as a base class or a member.
    Object,
    /// Read a base class other than TObject. Its numbers may be array lengths of the derived class.
    Base(ClassId),
    /// Read this number of objects of a class.
    Objects(ClassId, usize),
    /// Skip an object or container by its byte count.
    SkipObject,
    /// Read this number of pointers.
    Pointers(usize),
    /// Read a standard library container, or an object with a custom streamer.
    Container,
    /// Read objects after one shared header, up to the end that the header declares.
    CountedObjects(ClassId),
    /// Fail, because the member is not supported.
    Unknown,
}

/// A step of reading an object.
#[derive(Debug)]
pub(super) struct Step<M> {
    /// The member to read, or the first of several members that are skipped together.
    pub(super) element: Element,
    /// The visitor's identifier of the member; None if the visitor does not need the member.
    pub(super) wanted: Option<M>,
    pub(super) action: Action,
}

/// The steps that read an object of one class version.
#[derive(Debug)]
pub(super) struct Program<M> {
    /// Name of the class.
    pub(super) name: String,
    /// Whether the description may lack the object's last members.
    pub(super) is_beginning: bool,
    steps: Vec<Step<M>>,
    /// Number of steps up to and including the last step that the visitor needs.
    needed_count: usize,
}

impl<M> Program<M> {
    /// The steps to execute. Steps after the last required step are included only if the object has no byte count,
    /// because the walk then cannot skip to the end of the object.
    pub(super) fn steps(&self, end_is_recorded: bool) -> &[Step<M>] {
        if end_is_recorded {
            &self.steps[..self.needed_count]
        } else {
            &self.steps
        }
    }
}

/// Streamed format of a class's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streamer {
    /// The format that streamer infos describe.
    Described,
    /// A TObject, which has no header.
    Object,
    /// A TQObject, which has no bytes.
    Nothing,
    /// A TString.
    Text,
    /// A TDatime.
    Date,
    /// A TArray of this number type.
    Numbers(Number),
    /// A TList, THashList or TSortedList.
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

    /// Whether objects have a header, which may include a byte count.
    fn has_header(self) -> bool {
        match self {
            Self::Object | Self::Nothing | Self::Text | Self::Date | Self::Numbers(_) => false,
            Self::Described | Self::List | Self::PointerArray | Self::Map | Self::TextObject | Self::Clones => true,
        }
    }
}

/// Requirements of a visitor.
#[derive(Debug)]
pub(super) struct Purpose<R, M> {
    /// Returns the visitor's identifier of a member of an object in this role; None if the visitor does not need the
    /// member.
    pub(super) wanted: fn(R, &Element, MemberKind) -> Option<M>,
    /// Whether to walk through all members, including members that the visitor does not need.
    pub(super) walks_all: bool,
}

/// Programs by class, class version and object role, compiled on first use.
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
    /// The programs for the class's versions. Most files contain only one version.
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
    /// Create an empty set of programs.
    pub(super) fn new(purpose: Purpose<R, M>) -> Self {
        Self { purpose, classes: Vec::new(), by_name: BTreeMap::new(), counters: HashMap::new() }
    }

    /// The index of a class. Adds the class if it is new.
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

    /// The streamed format of a class's objects.
    pub(super) fn streamer(&self, class: ClassId) -> Streamer {
        self.classes[class.0].streamer
    }

    /// The program for an object whose header was read; None if neither the file nor Branchline describes the object's
    /// class. All calls must pass the same `infos`.
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
        // Register counters first, because the array or its counter may be in a base class that is compiled later.
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

    /// The index of a counter. If the counter is new, discards all programs, because they may skip the counter's value.
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
                    // A damaged file may declare any number of these objects, which have no bytes.
                    Times::Array if self.streamer(class) == Streamer::Nothing => Action::Skip(0),
                    Times::Array => Action::Objects(class, element.array_length),
                }
            }
            MemberKind::Pointer(_) => Action::Pointers(element.array_length.max(1)),
            MemberKind::Container if walks_all => Action::Container,
            MemberKind::Container => Action::SkipObject,
            MemberKind::Text(Times::Array) | MemberKind::TObject(Times::Array) => Action::Unknown,
            // Arrays of pointers are stored differently.
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

    /// Type code of a fixed-size array of objects that are stored in place (TVirtualStreamerInfo::kObject, kOffsetL).
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
