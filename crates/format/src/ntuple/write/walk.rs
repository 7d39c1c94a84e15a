//! Which elements of each column belong to some entries of a cluster: down the tree of fields, from collections to what
//! they hold (section "Mapping of C++ Types to Fields and Columns").

use std::ops::Range;

use crate::error::{FormatError, Result};

use super::super::cluster::alternatives;
use super::super::encoding::Switch;
use super::super::schema::{Role, Schema};

/// Fields within fields deeper than this do not exist in C++ code that compiles.
const DEPTH_MAX: usize = 64;

/// Reads elements of a cluster that say where other elements are.
pub trait Elements {
    /// The columns of the representation of a field that this cluster has pages of; None if it has none of the field.
    fn active(&self, field: usize) -> Option<&[usize]>;
    /// The end of collection number `element`, counted in elements from the start of the cluster.
    fn end(&mut self, column: usize, element: u64) -> Result<u64>;
    /// These elements of a column of variants.
    fn switches(&mut self, column: usize, elements: Range<u64>) -> Result<Vec<Switch>>;
}

/// The elements of each column that these entries of a cluster have; None for columns without pages in the cluster.
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
        return Ok(()); // shows what another field holds
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
        // Written before the field was added.
        (Role::Collection | Role::Variant | Role::Streamer, []) => vec![0..0; field.children.len()],
        (Role::Plain | Role::Streamer | Role::Record | Role::Collection | Role::Variant | Role::Unknown(_), _) => {
            let message = format!("{} is of a structure that is not known", schema.path_of(number));
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
        _ => Err(FormatError::damaged(0, format!("arrays of {size} elements are more than any file holds"))),
    }
}

fn content(ends: usize, range: &Range<u64>, elements: &mut dyn Elements) -> Result<Range<u64>> {
    let mut end = |count: u64| if count == 0 { Ok(0) } else { elements.end(ends, count - 1) };
    let (first, last) = (end(range.start)?, end(range.end)?);
    if first > last {
        let message = format!("a collection ends at element {last}, where {first} are before it");
        return Err(FormatError::damaged(0, message));
    }
    Ok(first..last)
}
