//! The lists of streamer infos of the inputs, joined for the output.

use std::collections::HashSet;
use std::sync::Arc;

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::file::read_key_at;
use branchline_format::write::object::classes::tree_infos;
use branchline_format::write::{join_infos, InfoList};
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, Result};
use crate::file::File;
use crate::write::merge::input::Input;

/// The list of streamer infos of an input.
#[derive(Debug, Clone)]
pub(crate) struct OwnedInfoList {
    /// Its bytes, not compressed.
    plain: Vec<u8>,
    /// Bytes of the key in front of it.
    key_size: u64,
}

impl OwnedInfoList {
    pub(crate) fn borrowed(&self) -> InfoList<'_> {
        InfoList { plain: &self.plain, key_size: self.key_size }
    }
}

/// The lists of streamer infos of the inputs, those that are alike once.
#[derive(Debug, Clone, Default)]
pub(crate) struct InfoLists {
    lists: Vec<OwnedInfoList>,
    digests: HashSet<u128>,
    /// Kept, so that no other list can have the address of one of them.
    known: Vec<Arc<ClassInfos>>,
}

/// Up to this number lists are known by their addresses, others by their bytes.
const KNOWN_MAX: usize = 64;

impl InfoLists {
    /// The list of an input, if it is not known; one that cannot be joined with others is refused.
    pub(crate) fn new_of(&self, input: &Input) -> Result<Option<OwnedInfoList>> {
        let infos = input.file.class_infos();
        if self.known.iter().any(|known| Arc::ptr_eq(known, infos)) {
            return Ok(None);
        }
        let Some(list) = info_list(&input.file)? else { return Ok(None) };
        if self.digests.contains(&xxh3_128(&list.plain)) {
            return Ok(None);
        }
        let joined = join_infos(&[list.borrowed()], list.key_size);
        joined.map_err(|error| ReadError::from_format(input.file.path(), &error.in_object("streamer infos")))?;
        Ok(Some(list))
    }

    /// Takes over the list of an input, where it has a new one.
    pub(crate) fn add(&mut self, input: &Input, new: Option<OwnedInfoList>) {
        if let Some(list) = new {
            self.digests.insert(xxh3_128(&list.plain));
            self.lists.push(list);
        }
        let infos = input.file.class_infos();
        if self.known.len() < KNOWN_MAX && !self.known.iter().any(|known| Arc::ptr_eq(known, infos)) {
            self.known.push(Arc::clone(infos));
        }
    }

    /// The list of the output, behind a key of this size.
    pub(crate) fn joined(&self, key_size: u64) -> Result<Vec<u8>> {
        let lists: Vec<InfoList<'_>> = self.lists.iter().map(OwnedInfoList::borrowed).collect();
        // Inputs that describe nothing hold classes of ROOT alone, which every reader knows.
        let joined = if lists.is_empty() { tree_infos(key_size) } else { join_infos(&lists, key_size) };
        joined.map_err(|error| ReadError::from_format("streamer infos", &error))
    }
}

/// The list of a file; none if it has none.
pub(crate) fn info_list(file: &File) -> Result<Option<OwnedInfoList>> {
    let header = file.header();
    if header.seek_info == 0 || header.info_size == 0 {
        return Ok(None);
    }
    let mut reader = file.metadata_reader();
    let key = reader.until_known(|loaded| read_key_at(loaded, header.seek_info))?;
    let plain = reader.object(&key)?;
    Ok(Some(OwnedInfoList { plain, key_size: key.key_size }))
}
