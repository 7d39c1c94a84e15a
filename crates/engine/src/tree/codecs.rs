//! Finds the codecs of branches in the headers of their baskets, because some writers do not record the codec in the
//! branch.

use branchline_format::compress::Codec;
use branchline_format::cursor::Cursor;
use branchline_format::file::loaded_bytes::DecodeError;
use branchline_format::file::parse_key_sizes;
use branchline_format::ntuple::envelope::Locator;

use crate::error::Result;
use crate::tree::extents::Extent;
use crate::tree::Tree;

/// Number of bytes of a record that are fetched to find its codec. A TKey is rarely longer, because the only long
/// strings in it are the names of the branch and the tree.
const RECORD_HEAD_BYTES: u64 = 1024;

impl Tree {
    /// Returns the codec of each branch's first basket. Returns None for a branch without baskets, and for all branches
    /// of a tree whose metadata name the codecs, such as an RNTuple.
    pub fn codecs_in_baskets(&self, indices: &[usize]) -> Result<Vec<Option<Codec>>> {
        let first = |index: &usize| self.extents(*index).map(|extents| extents.into_iter().next());
        let firsts = indices.iter().map(first).collect::<Result<Vec<_>>>()?;
        if self.content().names_codecs() {
            return Ok(vec![None; indices.len()]);
        }
        let head = |one: &Extent| Locator { offset: one.offset, size: one.size.min(RECORD_HEAD_BYTES) };
        let mut reader = self.file().metadata_reader();
        reader.fetch(firsts.iter().flatten().map(head))?;
        let mut codec = |one: &Extent| reader.until_known(|loaded| codec_of(loaded.get(one.offset, head(one).size)?));
        firsts.iter().map(|one| one.as_ref().map(&mut codec).transpose()).collect()
    }
}

fn codec_of(head: &[u8]) -> std::result::Result<Codec, DecodeError> {
    let key = parse_key_sizes(&mut Cursor::new(head)).map_err(DecodeError::Format)?;
    let stored = head.get(key.key_size as usize..).unwrap_or_default();
    Ok(if key.is_compressed() { Codec::of_record(stored).unwrap_or(Codec::None) } else { Codec::None })
}
