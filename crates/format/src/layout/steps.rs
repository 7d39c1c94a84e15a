//! The steps that read an object, compiled from the streamer info of its class.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

use super::form::Form;

/// Encoding of a string's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextLength {
    /// One byte, or the byte 255 and a four-byte length (TString, std::string, TLeafC).
    Short,
    /// A four-byte length (char*).
    Long,
}

/// A read step, executed for one object or for many objects. Memberwise collections and their split branches store one
/// member of all objects before the next member, so each step reads that member for all objects.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Numbers and headers with a fixed total size.
    Block(Block),
    /// A string.
    Text { slot: usize, length: TextLength },
    /// A TObject, whose members are skipped.
    TObject,
    /// A TObject whose members are read.
    Identity { unique_id: usize, bits: usize },
    /// TObject::fBits, followed by two bytes if the object is referenced.
    Bits { slot: usize },
    /// A TRef, read as the ID of the object that it refers to.
    TRef { slot: usize },
    /// A fixed-size array: `steps` read one element.
    Repeat { count: usize, steps: Vec<Step> },
    /// An object and its version header.
    Object(Arc<Object>),
    /// One version header, followed by `count` values per object. The header of a collection shows whether the
    /// collection is memberwise.
    Headed { count: usize, steps: Vec<Step> },
    /// A collection: the number of elements, then the elements.
    Collection(Box<Collection>),
    /// An array whose length is stored in another member.
    Counted(Box<Counted>),
    /// An array of objects whose length is stored in another member (kStreamLoop).
    Loop(Box<Loop>),
    /// A pointer: null, a class name followed by a new object, or a reference to an object read earlier.
    Pointer { slot: usize },
    /// An object after its class name, or an empty entry for a null pointer (TLeafObject).
    NamedObject { slot: usize },
    /// A TObjArray, TList or TMap: any number of pointers.
    Pointers(Box<Pointers>),
    /// A TClonesArray that is not split into branches.
    Clones { list: usize, slot: usize },
    /// A number that an older version of the class stores in a different type than the column's type.
    Convert(Convert),
    /// A member that is missing from this version of the class.
    Default(Form),
    /// An object of a recursive class. The object's columns are created when the object is read.
    Nested { slot: usize, class_name: String },
    /// A value of a type that the file does not describe. If the type may be an enumeration, `numbers` reads the value
    /// as an integer; otherwise reading a value is an error.
    Undescribed { class_name: String, numbers: Option<Enumerated> },
}

/// The values of an enumeration.
#[derive(Debug, Clone)]
pub(crate) struct Enumerated {
    pub(crate) slot: usize,
    pub(crate) scalar: Scalar,
    /// Whether the file declares the integer type of the enumeration.
    pub(crate) is_known: bool,
    /// Whether ROOT packs several numbers into one int: in some places, it reinterprets the memory of a container as
    /// ints.
    pub(crate) is_packed: bool,
}

impl Step {
    /// Name of the first enumeration, within containers and pairs, for which the file declares no integer type.
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

    /// Name of the enumeration, if the step reads a fixed-size array of enumerations that ROOT may have omitted.
    pub(crate) fn unsure_array(&self) -> Option<&str> {
        match self {
            Self::Repeat { steps, .. } => match steps.as_slice() {
                [Self::Undescribed { class_name, numbers: Some(one) }] if !one.is_known => Some(class_name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the step may read a reference to a position in the buffer. True for objects whose class is known only
    /// while reading.
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

/// A container of pointers. `name` is the slot for the container's name, if the name is requested.
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
    /// TMap: two pointers per element.
    Map,
}

/// An object of a class with known versions.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) class_name: String,
    /// Whether the object is a base class. Base classes have no header of their own in memberwise collections.
    pub(crate) is_base: bool,
    /// The class versions in the file, most common version first.
    pub(crate) versions: Vec<Version>,
    /// Whether to use the first version regardless of the version in the header.
    pub(crate) takes_any: bool,
    pub(crate) header: Arc<HeaderKind>,
}

/// The kind of header before objects of a class. Streamer infos do not describe the header, so a kind is assumed until
/// the first object has been read.
#[derive(Debug)]
pub(crate) struct HeaderKind(AtomicU8);

/// Kind of header before an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Header {
    /// A byte count and a version.
    Versioned,
    /// A byte count, version 0 and a checksum (classes without ClassDef).
    Foreign,
    /// A version without a byte count.
    Short,
    /// No header (classes whose custom streamer writes no header).
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

    /// Store the header kind of an object that was read. Returns whether a different kind was assumed before.
    pub(crate) fn learn(&self, header: Header) -> bool {
        self.0.load(Ordering::Relaxed) != header as u8 && self.0.swap(header as u8, Ordering::Relaxed) != header as u8
    }
}

/// A version of a class.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) version: i32,
    pub(crate) checksum: u32,
    /// The steps for a single object.
    pub(crate) steps: Vec<Step>,
    /// The steps that read the members one by one, for memberwise collections.
    pub(crate) members: Vec<Step>,
}

impl Object {
    /// The description of class version `version`.
    pub(crate) fn version(&self, version: i16) -> Option<&Version> {
        let first = self.versions.first().filter(|_| self.takes_any);
        first.or_else(|| self.versions.iter().find(|one| one.version == i32::from(version)))
    }

    /// The version with this checksum. A class with only one version matches any checksum, because the checksum may
    /// have been computed differently.
    pub(crate) fn checksum(&self, checksum: u32) -> Option<&Version> {
        let only = self.versions.first().filter(|_| self.takes_any || self.versions.len() == 1);
        self.versions.iter().find(|one| one.checksum == checksum).or(only)
    }
}

/// A standard library container.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    pub(crate) list: usize,
    /// The steps for one element.
    pub(crate) steps: Vec<Step>,
    /// The class of the elements, if the elements may be streamed memberwise.
    pub(crate) memberwise: Option<Object>,
}

/// A member that holds the length of an array.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counter {
    pub(crate) slot: usize,
    pub(crate) number: Number,
}

/// An array whose length is stored in another member.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) counter: Counter,
    /// Whether the array is the upper triangle of a symmetric matrix (TMatrixTSym). The counter is then the number of
    /// rows.
    pub(crate) is_triangle: bool,
    /// Whether a flag byte precedes the array and tells if the array is stored.
    pub(crate) has_flag: bool,
    /// Number of arrays after the flag byte. All arrays have the same length.
    pub(crate) arrays: usize,
    /// Number of scalars per element.
    pub(crate) each: usize,
    pub(crate) list: usize,
    pub(crate) slot: usize,
    pub(crate) scalar: Scalar,
}

impl Counted {
    /// Size of an element in bytes.
    pub(crate) fn element_size(&self) -> usize {
        self.scalar.stored_size().saturating_mul(self.each)
    }
}

/// An array of objects whose length is stored in another member.
#[derive(Debug, Clone)]
pub(crate) struct Loop {
    /// The member with the array length. None if that member has its own branch: all objects after the header then
    /// belong to the array.
    pub(crate) counter: Option<Counter>,
    pub(crate) arrays: usize,
    pub(crate) list: usize,
    /// The steps for one object.
    pub(crate) steps: Vec<Step>,
}

/// A fixed-size range of bytes, from which numbers are copied if all guards hold.
#[derive(Debug, Clone, Default)]
pub(crate) struct Block {
    pub(crate) size: usize,
    pub(crate) moves: Vec<Move>,
    pub(crate) guards: Vec<Guard>,
    /// The original steps, without the assumptions of the guards. Used if a guard fails.
    pub(crate) fallback: Vec<Step>,
}

/// Copies numbers from an offset in the block to a slot.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) offset: usize,
    pub(crate) scalar: Scalar,
    pub(crate) count: usize,
    pub(crate) slot: usize,
}

/// A condition on a block's bytes. If it does not hold, the assumed size of the block is wrong.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub(crate) offset: usize,
    pub(crate) check: Check,
}

/// Maximum size of a version header with byte count, version and checksum.
pub(crate) const HEADER_SIZE_MAX: usize = 10;

/// The check of a guard.
#[derive(Debug, Clone)]
pub(crate) enum Check {
    /// The bytes at the guard's offset equal the array's first bytes; the `usize` is the number of bytes to compare.
    Equal([u8; HEADER_SIZE_MAX], usize),
    /// These bits of the byte at the guard's offset are 0.
    Clear(u8),
}

impl Block {
    /// A block with a number or a fixed-size array of numbers.
    pub(crate) fn numbers(scalar: impl Into<Scalar>, count: usize, slot: usize) -> Self {
        let scalar = scalar.into();
        let size = scalar.stored_size().saturating_mul(count);
        Self { size, moves: vec![Move { offset: 0, scalar, count, slot }], ..Self::default() }
    }

    /// A block of skipped bytes.
    pub(crate) fn skipped(size: usize) -> Self {
        Self { size, ..Self::default() }
    }
}

/// A number to convert from its stored type to another type.
#[derive(Debug, Clone)]
pub(crate) struct Convert {
    /// The stored type.
    pub(crate) stored: Scalar,
    pub(crate) count: usize,
    pub(crate) slot: usize,
    /// The requested type.
    pub(crate) number: Number,
}

/// The steps for members that are streamed one by one. Base classes are replaced by their members' steps.
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
