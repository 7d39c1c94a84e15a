//! Human-readable C++ type names of branches.

use crate::layout::{Kind, Layout, RunHeader};
use crate::numbers::scalar::Scalar;
use crate::tree::TBranch;

/// The type of a branch's entries, such as `float`, `int32_t[]`, `double[2][3]` or `std::vector<float>`.
pub fn type_name(kind: &Kind, branch: &TBranch) -> String {
    match kind {
        Kind::Group => branch.element.as_ref().map_or_else(String::new, |element| element.class_name.clone()),
        Kind::Unreadable { class_name, .. } => class_name.clone(),
        Kind::Data(layout) => layout_name(layout),
    }
}

fn layout_name(layout: &Layout) -> String {
    match layout {
        Layout::Fixed { scalar, dimensions } => array_name(*scalar, dimensions, ""),
        Layout::Run { scalar, header: RunHeader::Container { is_set }, .. } => {
            format!("std::{}<{}>", if *is_set { "set" } else { "vector" }, scalar.type_name())
        }
        Layout::Run { scalar, dimensions, .. } => array_name(*scalar, dimensions, "[]"),
        Layout::Arrays { scalar, .. } => array_name(*scalar, &[], "[][]"),
        Layout::Objects(program) => program.type_name().to_string(),
    }
}

fn array_name(scalar: Scalar, dimensions: &[usize], variable: &str) -> String {
    let extents: String = dimensions.iter().map(|extent| format!("[{extent}]")).collect();
    format!("{}{variable}{extents}", scalar.type_name())
}
