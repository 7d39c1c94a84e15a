//! Columns without entries.

use crate::column::Column;
use crate::numbers::scalar::Scalar;

use crate::layout::branch::Layout;

impl Column {
    /// An empty column of the form that entries with this layout decode to.
    pub fn empty(layout: &Layout) -> Self {
        match layout {
            Layout::Fixed { scalar, dimensions } => Self::fixed(*scalar, dimensions),
            Layout::Run { scalar, dimensions, .. } => Self::list(Self::fixed(*scalar, dimensions)),
            Layout::Arrays { scalar, .. } => Self::list(Self::list(Self::fixed(*scalar, &[]))),
            Layout::Objects(program) => program.empty(),
        }
    }

    fn fixed(scalar: Scalar, dimensions: &[usize]) -> Self {
        let flat = Self::Flat { dtype: scalar.dtype(), values: Vec::new() };
        dimensions.iter().rev().fold(flat, |content, size| Self::Regular { size: *size, content: Box::new(content) })
    }

    fn list(content: Self) -> Self {
        Self::List { offsets: vec![0], content: Box::new(content) }
    }
}
