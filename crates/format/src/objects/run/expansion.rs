//! Limit of the memory that decoding fills without reading bytes of the file: defaults of missing members, loop
//! iterations that read nothing, and columns for further classes of objects.

use crate::error::{FormatError, Result};
use crate::layout::form::Form;

use super::slot::{Slot, NULL_TAG};

/// Constant part of the limit, in bytes.
const EXPANSION_BYTES_MIN: usize = 16 << 20;
/// Variable part of the limit, as a multiple of the data size.
const EXPANSION_FACTOR_MAX: usize = 256;
/// Number of bytes charged for a loop iteration that reads nothing.
pub(super) const ROUND_BYTES: usize = 16;
/// Number of bytes charged for a new slot.
pub(super) const SLOT_BYTES: usize = 256;

/// Number of bytes of memory that may still be filled without reading bytes of the file.
#[derive(Debug)]
pub(super) struct ExpansionLimit(usize);

impl ExpansionLimit {
    /// Create the limit for `data_bytes` bytes of data.
    pub(super) fn of(data_bytes: usize) -> Self {
        Self(EXPANSION_BYTES_MIN.saturating_add(data_bytes.saturating_mul(EXPANSION_FACTOR_MAX)))
    }

    pub(super) fn take(&mut self, bytes: usize, position: usize) -> Result<()> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or_else(|| {
            FormatError::damaged(position as u64, "the objects need far more memory than their bytes justify")
        })?;
        Ok(())
    }
}

/// Number of bytes that [`add_defaults`] appends per value.
pub(super) fn default_bytes(form: &Form) -> usize {
    let sum = |bytes: usize, one: &Form| bytes.saturating_add(default_bytes(one));
    match form {
        Form::Flat { scalar, .. } => scalar.size(),
        Form::Regular { size, content } => default_bytes(content).saturating_mul(*size),
        Form::List { .. } | Form::Text { .. } => 8,
        Form::Record { members, .. } => members.iter().map(|(_, member)| member).fold(0, sum),
        Form::Tuple(items) => items.iter().fold(0, sum),
        Form::Pointer { .. } => 1,
    }
}

/// Append the defaults of missing members: zeros, empty arrays and null pointers.
pub(super) fn add_defaults(form: &Form, slots: &mut [Slot], count: usize) {
    match form {
        Form::Flat { scalar, slot } => {
            let bytes = &mut slots[*slot].bytes;
            bytes.resize(bytes.len() + scalar.size() * count, 0);
        }
        Form::Regular { size, content } => add_defaults(content, slots, count.saturating_mul(*size)),
        Form::List { slot, .. } | Form::Text { slot } => {
            let offsets = &mut slots[*slot].offsets;
            let end = offsets.last().copied().unwrap_or(0);
            offsets.resize(offsets.len() + count, end);
        }
        Form::Record { members, .. } => members.iter().for_each(|(_, member)| add_defaults(member, slots, count)),
        Form::Tuple(items) => items.iter().for_each(|item| add_defaults(item, slots, count)),
        Form::Pointer { slot, .. } => {
            let tags = &mut slots[*slot].bytes;
            tags.resize(tags.len() + count, NULL_TAG);
        }
    }
}
