//! Conversion of an embedded basket to a separate, uncompressed record (TBasket::WriteBuffer).

use crate::basket::embedded::EmbeddedBasket;
use crate::error::{FormatError, Result};
use crate::marks::{BASKET_VERSION, BIG_VERSION, KEY_VERSION};

use crate::write::key::{push_i32, push_string, string_size};

/// Total size of the numeric fields of a large key.
const KEY_NUMBERS_SIZE: u64 = 34;

/// Encode the record of a branch's embedded basket. `move_record` sets the record's offset later. `may_refer` means
/// that the basket's objects may contain references, which are relative to the start of the key.
pub fn embedded_record(basket: &EmbeddedBasket, branch: &str, tree: &str, may_refer: bool) -> Result<Vec<u8>> {
    let head = &basket.head;
    if head.has_displacement() {
        return Err(FormatError::unsupported(
            "it is embedded in its tree and stores displacements, which is not supported",
        ));
    }
    let names = ["TBasket", branch, tree].map(str::as_bytes);
    let names_size: u64 = names.iter().map(|name| string_size(name)).sum();
    let head_size = 2 + 4 * 4 + 1 + u64::from(head.io_bits != 0);
    let key_size = KEY_NUMBERS_SIZE + names_size + head_size;
    if may_refer && key_size != basket.key_size {
        return Err(FormatError::unsupported(
            "it is embedded in its tree and its objects may refer to each other, which is not supported",
        ));
    }
    let last = key_size + basket.data.len() as u64;
    let table = basket.offsets.as_ref().map_or(&[][..], Vec::as_slice);
    let table_size = if table.is_empty() { 0 } else { 4 + 4 * table.len() as u64 };
    let object_size = basket.data.len() as u64 + table_size;

    let mut out = Vec::with_capacity((key_size + object_size) as usize);
    push_i32(&mut out, key_size + object_size)?;
    out.extend((KEY_VERSION + BIG_VERSION).to_be_bytes());
    push_i32(&mut out, object_size)?;
    out.extend(basket.date.to_be_bytes());
    let key_size_field = u16::try_from(key_size).map_err(|_| FormatError::unsupported("its names are too long"))?;
    out.extend(key_size_field.to_be_bytes());
    out.extend(basket.cycle.to_be_bytes());
    out.extend([0; 16]);
    names.iter().try_for_each(|name| push_string(&mut out, name))?;
    out.extend(BASKET_VERSION.to_be_bytes());
    out.extend(head.buffer_size.to_be_bytes());
    let entry_size = if head.io_bits == 0 { head.entry_size } else { -head.entry_size };
    out.extend(entry_size.to_be_bytes());
    if head.io_bits != 0 {
        out.push(head.io_bits);
    }
    push_i32(&mut out, basket.entries_count as u64)?;
    push_i32(&mut out, last)?;
    out.push(if head.generates_offsets() { head.flag } else { 0 });
    out.extend_from_slice(&basket.data);
    push_table(&mut out, table, key_size, head.stores_sizes())?;
    Ok(out)
}

/// Append the start of each entry relative to the start of the key, or the size of each entry if `are_sizes` is set.
fn push_table(out: &mut Vec<u8>, table: &[u32], key_size: u64, are_sizes: bool) -> Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    push_i32(out, table.len() as u64)?;
    let Some((_, starts)) = table.split_last() else { return Ok(()) };
    let mut before = 0;
    for start in starts {
        let start = key_size + u64::from(*start);
        push_i32(out, if are_sizes { start.saturating_sub(before) } else { start })?;
        before = start;
    }
    push_i32(out, 0) // extra number after the last entry
}
