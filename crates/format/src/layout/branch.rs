//! The byte layout of a branch's entries.

use crate::error::FormatError;
use crate::numbers::scalar::Scalar;
use crate::objects::Program;

/// Contents of a branch.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// No data: the branch only groups other branches.
    Group,
    /// Entries with this layout.
    Data(Layout),
    /// Entries that Branchline cannot read.
    Unreadable {
        /// C++ type or class of the branch.
        class_name: String,
        /// The reason: the layout is not supported, or the branch's metadata is damaged.
        error: FormatError,
    },
}

/// The byte layout of one entry.
#[derive(Debug, Clone, PartialEq)]
pub enum Layout {
    /// A fixed number of values. `dimensions` is empty for a single value.
    Fixed {
        /// Type of the values.
        scalar: Scalar,
        /// Dimensions of the array, outermost first.
        dimensions: Vec<usize>,
    },
    /// A header, followed by any number of values or of fixed-size arrays of values.
    Run {
        /// Type of the values.
        scalar: Scalar,
        /// Dimensions of each element, outermost first.
        dimensions: Vec<usize>,
        /// The header before the values.
        header: RunHeader,
        /// Index of the counter branch with the number of elements, needed if baskets have no entry offsets.
        count: Option<usize>,
    },
    /// The elements of a container, each with a variable-size array whose length is another member of the element.
    Arrays {
        /// Type of the values.
        scalar: Scalar,
        /// Index of the counter branch, which stores the member with the array length.
        count: usize,
    },
    /// Any other contents, read by a program.
    Objects(Program),
}

/// The header before a run of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunHeader {
    /// No bytes before the values.
    None,
    /// A flag byte. 0 means a null pointer, which has no values.
    Pointer,
    /// A four-byte count (TArray).
    Count,
    /// A byte count, a version and a four-byte count (a standard library container).
    Container {
        /// Whether the container is a std::set. Sets are read like other containers.
        is_set: bool,
    },
}

impl RunHeader {
    /// Size of the header in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::None => 0,
            Self::Pointer => 1,
            Self::Count => 4,
            Self::Container { .. } => 10,
        }
    }
}

/// Maximum of the stored and decoded sizes of a fixed-size array, in bytes; None on overflow.
pub(crate) fn array_size(scalar: Scalar, dimensions: &[usize]) -> Option<usize> {
    let element = scalar.size().max(scalar.stored_size());
    dimensions.iter().try_fold(element, |size, extent| size.checked_mul(*extent))
}

impl Layout {
    /// Whether entries may contain references to positions in their basket.
    fn may_refer(&self) -> bool {
        match self {
            Self::Objects(program) => program.may_refer(),
            Self::Fixed { .. } | Self::Run { .. } | Self::Arrays { .. } => false,
        }
    }

    /// Size in bytes of an entry, or of one element of a [`Layout::Run`]; 0 for layouts without fixed size, None on
    /// overflow.
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
    /// Whether entries may contain references to positions in their basket; true for unreadable entries.
    pub fn may_refer(&self) -> bool {
        match self {
            Self::Group => false,
            Self::Data(layout) => layout.may_refer(),
            Self::Unreadable { .. } => true,
        }
    }

    /// The layout of the entries, if they can be read.
    pub fn layout(&self) -> Option<&Layout> {
        match self {
            Self::Data(layout) => Some(layout),
            Self::Group | Self::Unreadable { .. } => None,
        }
    }
}
