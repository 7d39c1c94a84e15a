//! From the baskets or clusters that a chunk needs to their bytes in memory.

use crate::error::Result;
use crate::read::basket_fetch::fetch_baskets;
use crate::read::basket_source::{BasketSource, Carried};
use crate::read::chunk::Chunk;
use crate::read::needed::Needed;
use crate::read::page_fetch::fetch_pages;
use crate::read::room::Room;
use crate::tree::Content;

/// The bytes of these baskets, in their order. Baskets that reach beyond the chunk are left in `carried` for the next
/// one; those that the chunk before left in `before` are not fetched again.
pub(crate) fn fetch_carrying(
    chunk: &Chunk,
    needed: &[Needed],
    before: &Carried,
    carried: &mut Carried,
    room: Room<'_>,
) -> Result<Vec<BasketSource>> {
    match chunk.tree.content() {
        Content::Tree { meta, .. } => fetch_baskets(chunk, meta, needed, before, carried, room),
        Content::Ntuple(ntuple) => fetch_pages(chunk, ntuple, needed, before, carried, room),
    }
}

/// The bytes of these baskets, in their order, for a chunk that stands alone.
pub(crate) fn fetch(chunk: &Chunk, needed: &[Needed], room: Room<'_>) -> Result<Vec<BasketSource>> {
    fetch_carrying(chunk, needed, &Carried::default(), &mut Carried::default(), room)
}
