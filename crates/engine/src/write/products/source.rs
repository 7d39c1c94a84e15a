//! Where an object of an input is.

use std::sync::Arc;

use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use bytes::Bytes;

use crate::error::Result;
use crate::file::metadata_reader::MetadataReader;
use crate::file::File;
use crate::write::new_file::{ObjectName, TOP};
use crate::write::products::output::MergeOutput;

/// An object of an input: its file, its path and its key.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) entry: &'a Entry,
}

impl<'a> Source<'a> {
    /// Directories and name of the object, joined with `/`.
    pub(crate) fn path(&self) -> &'a str {
        &self.entry.path
    }

    pub(crate) fn key(&self) -> &'a TKey {
        &self.entry.key
    }

    /// Path or URL of the file.
    pub(crate) fn file_path(&self) -> &'a str {
        self.file.path()
    }

    /// The number of the directory of the output that the object belongs to.
    pub(crate) fn directory(&self, output: &MergeOutput) -> usize {
        let parent = self.path().strip_suffix(&self.key().name).map_or("", |parent| parent.trim_end_matches('/'));
        output.file.directory(parent).unwrap_or(TOP)
    }

    /// The name of the object in the output, if it is the only one of its path.
    pub(crate) fn object_name(&self) -> ObjectName {
        ObjectName::of_key(self.key())
    }
}

/// The stored bytes of an object, without its key.
pub(crate) fn stored_object(reader: &mut MetadataReader<'_>, key: &TKey) -> Result<Bytes> {
    let record = reader.until_known(|loaded| loaded.get(key.seek, key.size).map(Bytes::copy_from_slice))?;
    Ok(record.slice(key.key_size as usize..))
}
