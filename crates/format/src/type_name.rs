//! C++ names of what branches hold, for people.

use crate::layout::{Item, Kind, Layout, RunHeader};
use crate::scalar::Scalar;
use crate::tree::TBranch;

/// The type of a branch's entries, such as `float`, `int32_t[]`, `double[2][3]` or `std::vector<float>`.
pub fn type_name(kind: &Kind, branch: &TBranch) -> String {
    match kind {
        Kind::Group => branch.element.as_ref().map_or_else(String::new, |element| element.class_name.clone()),
        Kind::Unsupported { class_name, .. } => class_name.clone(),
        Kind::Data(layout) => layout_name(layout),
    }
}

fn layout_name(layout: &Layout) -> String {
    match layout {
        Layout::Fixed { scalar, dimensions } => array_name(*scalar, dimensions, ""),
        Layout::Run { scalar, header: RunHeader::Container, .. } => format!("std::vector<{}>", scalar.type_name()),
        Layout::Run { scalar, dimensions, .. } => array_name(*scalar, dimensions, "[]"),
        Layout::Arrays { scalar, .. } => array_name(*scalar, &[], "[][]"),
        Layout::Bits { many: false } => "uint32_t".to_string(),
        Layout::Bits { many: true } => "uint32_t[]".to_string(),
        Layout::Members(members) => {
            let names =
                members.iter().map(|one| format!("{} {}", array_name(one.scalar, &one.dimensions, ""), one.name));
            format!("struct {{{}}}", names.collect::<Vec<_>>().join("; "))
        }
        Layout::Text(_) => "std::string".to_string(),
        Layout::Nested { item, .. } => item_name(item),
    }
}

fn array_name(scalar: Scalar, dimensions: &[usize], variable: &str) -> String {
    let extents: String = dimensions.iter().map(|extent| format!("[{extent}]")).collect();
    format!("{}{variable}{extents}", scalar.type_name())
}

fn item_name(item: &Item) -> String {
    match item {
        Item::Scalar(scalar) => scalar.type_name().to_string(),
        Item::Text => "std::string".to_string(),
        Item::List(inner) => format!("std::vector<{}>", item_name(inner)),
        Item::Rest(inner) => format!("{}[]", item_name(inner)),
    }
}
