//! The steps that read an object: what a class's streamer info says, compiled once.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

use super::form::Form;

/// How the length of a string is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextLength {
    /// One byte, or 255 and four bytes (TString, std::string, TLeafC).
    Short,
    /// Four bytes (char*).
    Long,
}

/// One step. It is taken for one object, or for any number of them: collections that are streamed memberwise and
/// branches of split ones store a member of all objects before the next member.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Numbers and headers of fixed size.
    Block(Block),
    /// A string.
    Text { slot: usize, length: TextLength },
    /// A TObject, whose members are skipped.
    TObject,
    /// A TObject with its members.
    Identity { unique_id: usize, bits: usize },
    /// TObject::fBits, followed by two bytes if the object is referenced.
    Bits { slot: usize },
    /// A TRef: its number.
    TRef { slot: usize },
    /// A fixed array of something.
    Repeat { count: usize, steps: Vec<Step> },
    /// An object behind its version header.
    Object(Arc<Object>),
    /// One version header in front of each object's `count` things; of a collection it says if it is memberwise.
    Headed { count: usize, steps: Vec<Step> },
    /// A count and that number of elements.
    Collection(Box<Collection>),
    /// An array that another member counts.
    Counted(Box<Counted>),
    /// An array of objects that another member counts (kStreamLoop).
    Loop(Box<Loop>),
    /// A pointer: null, a new object behind the name of its class, or one that was read before.
    Pointer { slot: usize },
    /// A pointer, or nothing behind the name of a class (TLeafObject).
    NamedObject { slot: usize },
    /// TObjArray, TList or TMap: any number of pointers.
    Pointers(Box<Pointers>),
    /// A TClonesArray that is not split.
    Clones { list: usize, slot: usize },
    /// A number of another type than the column's, as a class had it in an older version.
    Convert(Convert),
    /// A member that this version of its class does not have.
    Default(Form),
    /// An object of a class that contains itself: its columns are made when it is read.
    Nested { slot: usize, class_name: String },
    /// An object of a class that the file does not describe, which must not be there; or numbers, if the class may be
    /// an enumeration.
    Undescribed { class_name: String, numbers: Option<Enumerated> },
}

/// The numbers of an enumeration.
#[derive(Debug, Clone)]
pub(crate) struct Enumerated {
    pub(crate) slot: usize,
    pub(crate) scalar: Scalar,
    /// Whether the file says that it has this type.
    pub(crate) is_known: bool,
}

impl Step {
    /// The enumeration that containers and pairs hold, if the file does not say which type its numbers have.
    pub(crate) fn unknown_enumeration(steps: &[Self]) -> Option<&str> {
        steps.iter().find_map(|step| match step {
            Self::Collection(collection) => Self::unknown_enumeration(&collection.steps),
            Self::Object(object) if object.class_name.starts_with("pair<") => {
                object.versions.first().and_then(|version| Self::unknown_enumeration(&version.steps))
            }
            Self::Undescribed { class_name, numbers: Some(one) } if !one.is_known => Some(class_name),
            _ => None,
        })
    }

    /// Whether it may read a reference to a place in the buffer. Classes that are found only while reading may have
    /// some.
    pub(crate) fn may_refer(&self) -> bool {
        let any = |steps: &[Self]| steps.iter().any(Self::may_refer);
        let in_object =
            |object: &Object| object.versions.iter().any(|version| any(&version.steps) || any(&version.members));
        match self {
            Self::Pointer { .. } | Self::NamedObject { .. } | Self::Pointers(_) | Self::Clones { .. } => true,
            Self::Nested { .. } => true,
            Self::Repeat { steps, .. } | Self::Headed { steps, .. } => any(steps),
            Self::Object(object) => in_object(object),
            Self::Collection(collection) => {
                any(&collection.steps) || collection.memberwise.as_ref().is_some_and(in_object)
            }
            Self::Loop(repeated) => any(&repeated.steps),
            Self::Block(_) | Self::Text { .. } | Self::TObject | Self::Identity { .. } | Self::Bits { .. } => false,
            Self::TRef { .. } | Self::Counted(_) | Self::Convert(_) | Self::Default(_) => false,
            Self::Undescribed { .. } => false,
        }
    }
}

/// A container of pointers, and its name where that is wanted.
#[derive(Debug, Clone)]
pub(crate) struct Pointers {
    pub(crate) list: usize,
    pub(crate) kind: PointersKind,
    pub(crate) slots: Vec<usize>,
    pub(crate) name: Option<usize>,
}

/// ROOT's containers of pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointersKind {
    /// TObjArray.
    Array,
    /// TList: an option string follows each pointer.
    List,
    /// TMap: two pointers each.
    Map,
}

/// An object of a class.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) class_name: String,
    /// Whether it is a base class, which has no header of its own in collections that are streamed memberwise.
    pub(crate) is_base: bool,
    /// The versions that the file describes, the usual one first.
    pub(crate) versions: Vec<Version>,
    /// Whether the first of them serves for all, whatever the header says.
    pub(crate) takes_any: bool,
    pub(crate) header: Arc<HeaderKind>,
}

/// The header in front of the objects of a class. Streamer infos do not say which one: it is assumed at first, and
/// known once an object was read.
#[derive(Debug)]
pub(crate) struct HeaderKind(AtomicU8);

/// The header in front of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// A byte count and a version.
    Versioned,
    /// A byte count, 0 and a checksum, as of classes without ClassDef.
    Foreign,
    /// A version only.
    Short,
    /// Nothing, as of classes with a streamer of their own that writes none.
    None,
}

const HEADERS: [Header; 4] = [Header::Versioned, Header::Foreign, Header::Short, Header::None];

impl HeaderKind {
    pub(crate) fn supposed(header: Header) -> Self {
        Self(AtomicU8::new(header as u8))
    }

    pub(crate) fn now(&self) -> Header {
        HEADERS.get(usize::from(self.0.load(Ordering::Relaxed))).copied().unwrap_or(Header::Versioned)
    }

    /// Keeps the header of an object that was read. Returns whether another one was assumed.
    pub(crate) fn learn(&self, header: Header) -> bool {
        self.0.load(Ordering::Relaxed) != header as u8 && self.0.swap(header as u8, Ordering::Relaxed) != header as u8
    }
}

/// A version of a class.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) version: i32,
    pub(crate) checksum: u32,
    /// The steps of a single object.
    pub(crate) steps: Vec<Step>,
    /// The steps of its members one by one.
    pub(crate) members: Vec<Step>,
}

impl Object {
    /// The version of this number.
    pub(crate) fn version(&self, version: i16) -> Option<&Version> {
        let first = self.versions.first().filter(|_| self.takes_any);
        first.or_else(|| self.versions.iter().find(|one| one.version == i32::from(version)))
    }

    /// The version with this checksum. A class that the file describes only once is that one, however its checksum
    /// was computed.
    pub(crate) fn checksum(&self, checksum: u32) -> Option<&Version> {
        let only = self.versions.first().filter(|_| self.takes_any || self.versions.len() == 1);
        self.versions.iter().find(|one| one.checksum == checksum).or(only)
    }
}

/// A container.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    pub(crate) list: usize,
    /// The steps of one element.
    pub(crate) steps: Vec<Step>,
    /// The class of the elements, if they may be streamed memberwise.
    pub(crate) memberwise: Option<Object>,
}

/// Where the number of elements of an array is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) slot: usize,
    pub(crate) number: Number,
}

/// An array that another member counts.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) counter: Counter,
    /// Whether the counter is the number of rows of a symmetric matrix, whose upper half is stored (TMatrixTSym).
    pub(crate) is_triangle: bool,
    /// Whether a byte in front says if there is an array at all.
    pub(crate) has_flag: bool,
    /// Number of arrays behind the byte, which all have the same length.
    pub(crate) arrays: usize,
    /// Numbers in each element.
    pub(crate) each: usize,
    pub(crate) list: usize,
    pub(crate) slot: usize,
    pub(crate) scalar: Scalar,
}

impl Counted {
    /// Bytes of an element.
    pub(crate) fn element_size(&self) -> usize {
        self.scalar.stored_size().saturating_mul(self.each)
    }
}

/// An array of objects that another member counts.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    /// None where the counter has a branch of its own: the objects are then all that are behind the header.
    pub(crate) counter: Option<Counter>,
    pub(crate) arrays: usize,
    pub(crate) list: usize,
    /// The steps of one object.
    pub(crate) steps: Vec<Step>,
}

/// Bytes of fixed size, from which numbers are taken if the guards agree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    pub(crate) size: usize,
    pub(crate) moves: Vec<Move>,
    pub(crate) guards: Vec<Guard>,
    /// The same without assumptions, for bytes with which the guards do not agree.
    pub(crate) fallback: Vec<Step>,
}

/// Numbers that go from a place in the block to a slot.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) offset: usize,
    pub(crate) scalar: Scalar,
    pub(crate) count: usize,
    pub(crate) slot: usize,
}

/// A condition on the bytes of a block: where it does not hold, the block has another size.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) offset: usize,
    pub(crate) check: Check,
}

/// Most bytes of a version header: byte count, version, checksum.
pub(crate) const HEADER_SIZE_MAX: usize = 10;

/// The check of a guard.
#[derive(Debug, Clone)]
pub(crate) enum Check {
    /// These bytes, as many as the number says.
    Equal([u8; HEADER_SIZE_MAX], usize),
    /// A byte without these bits.
    Clear(u8),
}

impl Block {
    /// A number or a fixed array of numbers.
    pub(crate) fn numbers(scalar: impl Into<Scalar>, count: usize, slot: usize) -> Self {
        let scalar = scalar.into();
        let size = scalar.stored_size().saturating_mul(count);
        Self { size, moves: vec![Move { offset: 0, scalar, count, slot }], ..Self::default() }
    }

    /// Bytes that are skipped.
    pub(crate) fn skipped(size: usize) -> Self {
        Self { size, ..Self::default() }
    }
}

/// Numbers stored in one type and wanted in another.
#[derive(Debug, Clone)]
pub(crate) struct Convert {
    /// As they are stored.
    pub(crate) stored: Scalar,
    pub(crate) count: usize,
    pub(crate) slot: usize,
    /// As they are wanted.
    pub(crate) number: Number,
}

/// The steps of members that are streamed one by one: those of base classes take part.
pub(crate) fn flattened(steps: &[Step]) -> Vec<Step> {
    let mut all = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Object(object) if object.is_base => {
                all.extend(object.versions.first().into_iter().flat_map(|version| version.members.iter().cloned()));
            }
            other => all.push(other.clone()),
        }
    }
    all
}
