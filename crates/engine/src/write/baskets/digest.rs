//! A digest of a basket that does not depend on where the basket is in the file.

use xxhash_rust::xxh3::xxh3_64;

/// Offset of fSeekKey and fSeekPdir in a key. Both fields depend on the key's location in the file.
const PLACE_AT: usize = 18;

/// Returns the digest of a record, leaving out fSeekKey and fSeekPdir.
pub(crate) fn digest_of(record: &[u8]) -> u64 {
    let is_large = record.get(4..6).is_some_and(|version| version >= &1001u16.to_be_bytes()[..]);
    let place_bytes = if is_large { 16 } else { 8 };
    let head = record.get(..PLACE_AT).unwrap_or(record);
    let rest = record.get(PLACE_AT + place_bytes..).unwrap_or_default();
    xxh3_64(rest) ^ xxh3_64(head).rotate_left(1)
}
