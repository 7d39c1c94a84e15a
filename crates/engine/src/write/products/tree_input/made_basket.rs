//! Creates baskets in memory for entries that are in no file.

use std::sync::Arc;

use branchline_format::basket::embedded::{BasketHead, EmbeddedBasket};

/// The concatenated bytes of entries, and the size of each entry.
pub(crate) struct EntryBytes {
    pub(crate) data: Vec<u8>,
    pub(crate) sizes: Vec<usize>,
}

/// Creates a basket with these entries. Returns None if the basket would be too large.
pub(crate) fn basket_of(entries: EntryBytes, stores_offsets: bool) -> Option<EmbeddedBasket> {
    let entries_count = entries.sizes.len();
    let table_bytes = if stores_offsets { entries_count.checked_mul(4)? } else { 0 };
    let bytes = entries.data.len().checked_add(table_bytes)?;
    let mut starts = vec![0u32];
    let mut end = 0usize;
    for size in &entries.sizes {
        end = end.checked_add(*size)?;
        starts.push(u32::try_from(end).ok()?);
    }
    let first_size = entries.sizes.first().copied().unwrap_or(0);
    let entry_size = if stores_offsets { entries_count + 1 } else { first_size };
    let head = BasketHead {
        entries_count,
        buffer_size: i32::try_from(bytes.max(1)).ok()?,
        entry_size: i32::try_from(entry_size).ok()?,
        ..BasketHead::default()
    };
    Some(EmbeddedBasket {
        head,
        cycle: 1,
        has_data: true,
        entries_count,
        data: Arc::new(entries.data),
        offsets: stores_offsets.then_some(starts),
        ..EmbeddedBasket::default()
    })
}
