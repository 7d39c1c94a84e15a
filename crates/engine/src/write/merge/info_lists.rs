//! The streamer info lists of the inputs, which are joined for the output.

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

/// The streamer info list of an input.
#[derive(Debug, Clone)]
pub(crate) struct OwnedInfoList {
    /// The decompressed bytes of the list.
    plain: Vec<u8>,
    /// Size of the key that precedes the list.
    key_size: u64,
}

impl OwnedInfoList {
    pub(crate) fn borrowed(&self) -> InfoList<'_> {
        InfoList { plain: &self.plain, key_size: self.key_size }
    }
}

/// The distinct streamer info lists of all inputs.
#[derive(Debug, Clone, Default)]
pub(crate) struct InfoLists {
    lists: Vec<OwnedInfoList>,
    digests: HashSet<u128>,
    /// Parsed lists that are recognized by their address. They are kept alive, so that no other list can get the same
    /// address.
    known: Vec<Arc<ClassInfos>>,
}

/// Maximum number of lists that are recognized by their address. Any further list is compared by its bytes.
const KNOWN_MAX: usize = 64;

impl InfoLists {
    /// Returns the list of an input if it is new. Returns an error if the list cannot be joined with the other lists.
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

    /// Adds the list of an input if it is new.
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

    /// Returns the list for the output. `key_size` is the size of the key that precedes it.
    pub(crate) fn joined(&self, key_size: u64) -> Result<Vec<u8>> {
        let lists: Vec<InfoList<'_>> = self.lists.iter().map(OwnedInfoList::borrowed).collect();
        // Inputs without streamer infos contain only built-in classes of ROOT, which every reader knows.
        let joined = if lists.is_empty() { tree_infos(key_size) } else { join_infos(&lists, key_size) };
        joined.map_err(|error| ReadError::from_format("streamer infos", &error))
    }
}

/// Returns the streamer info list of a file, if it has one.
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
