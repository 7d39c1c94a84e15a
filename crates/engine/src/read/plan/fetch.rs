//! From the baskets or clusters that a chunk needs to their bytes in memory.

use crate::error::Result;
use crate::fetch::basket_source::{BasketSource, Carried};
use crate::fetch::request::{FetchRequest, Needed};
use crate::fetch::room::Room;
use crate::read::decode::chunk::Chunk;

/// The bytes of these baskets, in their order. Baskets that reach beyond the chunk are left in `carried` for the next
/// one; those that the chunk before left in `before` are not fetched again.
pub(crate) fn fetch_carrying(
    chunk: &Chunk,
    needed: &[Needed],
    before: &Carried,
    carried: &mut Carried,
    room: Room<'_>,
) -> Result<Vec<BasketSource>> {
    let (file, entries, branches) = (chunk.tree.file(), &chunk.entries, &chunk.columns);
    chunk.tree.content().fetch(&FetchRequest { file, entries, branches, needed, room }, before, carried)
}

/// The bytes of these baskets, in their order, for a chunk that stands alone.
pub(crate) fn fetch(chunk: &Chunk, needed: &[Needed], room: Room<'_>) -> Result<Vec<BasketSource>> {
    fetch_carrying(chunk, needed, &Carried::default(), &mut Carried::default(), room)
}
