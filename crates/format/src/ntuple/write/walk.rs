//! Finds each column's elements that belong to a range of entries of a cluster, by descending the field tree from
//! collections to their contents (section "Mapping of C++ Types to Fields and Columns").
//!
//! ```
//! use std::ops::Range;
//!
//! use branchline_format::error::Result;
//! use branchline_format::ntuple::encoding::Switch;
//! use branchline_format::ntuple::number_types::ColumnType;
//! use branchline_format::ntuple::schema::{Column, Field, Schema};
//! use branchline_format::ntuple::write::walk::{element_ranges, Elements};
//! use branchline_format::numbers::number::Number;
//!
//! /// A cluster without collections and variants.
//! struct Flat;
//!
//! impl Elements for Flat {
//!     fn active(&self, _field: usize) -> Option<&[usize]> {
//!         Some(&[0])
//!     }
//!     fn end(&mut self, _column: usize, _element: u64) -> Result<u64> {
//!         unreachable!()
//!     }
//!     fn switches(&mut self, _column: usize, _elements: Range<u64>) -> Result<Vec<Switch>> {
//!         unreachable!()
//!     }
//! }
//! # let mut schema = Schema::default();
//! # schema.fields.push(Field {
//! #     name: "x".to_string(),
//! #     type_name: "std::int32_t".to_string(),
//! #     columns: vec![vec![0]],
//! #     ..Field::default()
//! # });
//! # schema.top.push(0);
//! # let kind = ColumnType::of_numbers(Number::I32, false);
//! # schema.columns.push(Column {
//! #     kind,
//! #     encoding: kind.encoding(),
//! #     field: 0,
//! #     representation: 0,
//! #     first_element: 0,
//! #     suppressed_before: false,
//! # });
//!
//! // A schema with one field of type std::int32_t, stored in column 0.
//! assert_eq!(element_ranges(&schema, 5..10, &mut Flat)?, [Some(5..10)]);
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::ops::Range;

use crate::error::{FormatError, Result};

use super::super::cluster::alternatives;
use super::super::encoding::Switch;
use super::super::schema::{Role, Schema};

/// Maximum nesting depth of fields. Compilers do not accept more deeply nested C++ types.
const DEPTH_MAX: usize = 64;

/// Access to the elements of a cluster that determine the positions of other elements: collection ends and variants.
pub trait Elements {
    /// The columns of a field's active representation; None if the cluster has no pages of the field.
    fn active(&self, field: usize) -> Option<&[usize]>;
    /// The end of the collection with index `element`, relative to the start of the cluster.
    fn end(&mut self, column: usize, element: u64) -> Result<u64>;
    /// Read a range of elements of a variant column.
    fn switches(&mut self, column: usize, elements: Range<u64>) -> Result<Vec<Switch>>;
}

/// For each column, the range of elements that belong to these entries of a cluster. None for columns without pages in
/// the cluster.
pub fn element_ranges(
    schema: &Schema,
    entries: Range<u64>,
    elements: &mut dyn Elements,
) -> Result<Vec<Option<Range<u64>>>> {
    let mut ranges = vec![None; schema.columns.len()];
    for field in &schema.top {
        walk(schema, *field, entries.clone(), elements, &mut ranges, 0)?;
    }
    Ok(ranges)
}

fn walk(
    schema: &Schema,
    number: usize,
    range: Range<u64>,
    elements: &mut dyn Elements,
    ranges: &mut [Option<Range<u64>>],
    depth: usize,
) -> Result<()> {
    let field = &schema.fields[number];
    if field.source.is_some() {
        return Ok(()); // projected field: its columns belong to another field
    }
    if depth > DEPTH_MAX {
        return Err(FormatError::unsupported(format!("{} is nested too deeply", schema.path_of(number))));
    }
    let range = match field.array_size {
        Some(size) => times(&range, size)?,
        None => range,
    };
    let columns = elements.active(number).map(<[usize]>::to_vec).unwrap_or_default();
    if let Some(first) = columns.first() {
        ranges[*first] = Some(range.clone());
    }
    let inner = match (field.role, columns.as_slice()) {
        (Role::Plain | Role::Streamer, [ends, bytes]) => {
            ranges[*bytes] = Some(content(*ends, &range, elements)?);
            Vec::new()
        }
        (Role::Collection, [ends]) => vec![content(*ends, &range, elements)?; field.children.len()],
        (Role::Variant, [switch]) => {
            let all = alternatives(&elements.switches(*switch, range)?, field.children.len())?;
            all.into_iter().map(|alternative| alternative.elements).collect()
        }
        (Role::Plain | Role::Record, [] | [_]) => vec![range; field.children.len()],
        // The field has no columns here because it was added after this cluster was written.
        (Role::Collection | Role::Variant | Role::Streamer, []) => vec![0..0; field.children.len()],
        (Role::Plain | Role::Streamer | Role::Record | Role::Collection | Role::Variant | Role::Unknown(_), _) => {
            let message = format!("{} has a structure that is not supported", schema.path_of(number));
            return Err(FormatError::unsupported(message));
        }
    };
    field
        .children
        .iter()
        .zip(inner)
        .try_for_each(|(child, range)| walk(schema, *child, range, elements, ranges, depth + 1))
}

fn times(range: &Range<u64>, size: u64) -> Result<Range<u64>> {
    let product = |number: u64| number.checked_mul(size).filter(|product| *product <= i64::MAX as u64);
    match (product(range.start), product(range.end)) {
        (Some(start), Some(end)) => Ok(start..end),
        _ => Err(FormatError::damaged(0, format!("the number of elements overflows for arrays of size {size}"))),
    }
}

fn content(ends: usize, range: &Range<u64>, elements: &mut dyn Elements) -> Result<Range<u64>> {
    let mut end = |count: u64| if count == 0 { Ok(0) } else { elements.end(ends, count - 1) };
    let (first, last) = (end(range.start)?, end(range.end)?);
    if first > last {
        let message = format!("a collection ends at element {last}, before its start at {first}");
        return Err(FormatError::damaged(0, message));
    }
    Ok(first..last)
}
