//! The bytes of the entries of a branch.

use crate::error::FormatError;
use crate::numbers::scalar::Scalar;
use crate::objects::Program;

/// What a branch holds.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Nothing: it only groups others.
    Group,
    /// Entries of this layout.
    Data(Layout),
    /// Entries that cannot be read.
    Unreadable {
        /// C++ type or class of the branch.
        class_name: String,
        /// Why: the kind of entries is not supported, or the metadata of the branch are damaged.
        error: FormatError,
    },
}

/// The bytes of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// A fixed number of values (none of `dimensions` for a single one).
    Fixed {
        /// The values.
        scalar: Scalar,
        /// Extents, outermost first.
        dimensions: Vec<usize>,
    },
    /// Any number of values, or of fixed arrays of them, behind a header.
    Run {
        /// The values.
        scalar: Scalar,
        /// Extents of each element.
        dimensions: Vec<usize>,
        /// The header in front of them.
        header: RunHeader,
        /// Index of the branch that says how many there are, needed where baskets have no entry offsets.
        count: Option<usize>,
    },
    /// Elements of a container that each have a variable array, counted by another of their members.
    Arrays {
        /// The values.
        scalar: Scalar,
        /// Index of the branch of that member.
        count: usize,
    },
    /// Anything else.
    Objects(Program),
}

/// The header in front of a run of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunHeader {
    /// Nothing.
    None,
    /// One byte: 0 for a null pointer, which has no values.
    Pointer,
    /// A four-byte count (TArray).
    Count,
    /// Byte count, version and a four-byte count (a container).
    Container {
        /// Whether it is a std::set, which is read as any other.
        is_set: bool,
    },
}

impl RunHeader {
    /// Its bytes.
    pub fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::Pointer => 1,
            Self::Count => 4,
            Self::Container { .. } => 10,
        }
    }
}

/// Bytes of a fixed array as it is stored or decoded, whichever takes more; None if the number overflows.
pub(crate) fn array_size(scalar: Scalar, dimensions: &[usize]) -> Option<usize> {
    let element = scalar.size().max(scalar.stored_size());
    dimensions.iter().try_fold(element, |size, extent| size.checked_mul(*extent))
}

impl Layout {
    /// Whether entries may refer to places in their basket.
    fn may_refer(&self) -> bool {
        match self {
            Self::Objects(program) => program.may_refer(),
            Self::Fixed { .. } | Self::Run { .. } | Self::Arrays { .. } => false,
        }
    }

    /// Bytes of the part of an entry, or of an element of it, that has a fixed size; None if the number overflows.
    pub(crate) fn fixed_size(&self) -> Option<usize> {
        match self {
            Self::Fixed { scalar, dimensions } | Self::Run { scalar, dimensions, .. } => {
                array_size(*scalar, dimensions)
            }
            Self::Arrays { .. } | Self::Objects(_) => Some(0),
        }
    }
}

impl Kind {
    /// Whether entries may refer to places in their basket; true for those that are not read.
    pub fn may_refer(&self) -> bool {
        match self {
            Self::Group => false,
            Self::Data(layout) => layout.may_refer(),
            Self::Unreadable { .. } => true,
        }
    }

    /// The data layout, when there is one.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Data(layout) => Some(layout),
            Self::Group | Self::Unreadable { .. } => None,
        }
    }
}
