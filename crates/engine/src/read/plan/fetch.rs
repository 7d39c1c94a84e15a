//! Fetches the baskets or clusters that a chunk needs.

use crate::error::Result;
use crate::fetch::basket_source::{BasketSource, Carried};
use crate::fetch::request::{FetchRequest, Needed};
use crate::fetch::room::Room;
use crate::read::decode::chunk::Chunk;

/// Returns the bytes of these baskets, in order. Baskets that extend beyond the chunk are kept in `carried` for the
/// next chunk. Baskets that the previous chunk kept in `before` are not fetched again.
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

/// Returns the bytes of these baskets, in order, for a chunk that shares no baskets with other chunks.
pub(crate) fn fetch(chunk: &Chunk, needed: &[Needed], room: Room<'_>) -> Result<Vec<BasketSource>> {
    fetch_carrying(chunk, needed, &Carried::default(), &mut Carried::default(), room)
}
