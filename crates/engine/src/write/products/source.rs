//! The location of an object in an input.

use std::sync::Arc;

use branchline_format::file::directory::Entry;
use branchline_format::file::TKey;
use bytes::Bytes;

use crate::error::Result;
use crate::file::metadata_reader::MetadataReader;
use crate::file::File;
use crate::write::new_file::{ObjectName, TOP};
use crate::write::products::output::MergeOutput;

/// An object of an input, with its file, its path and its key.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub(crate) file: &'a Arc<File>,
    pub(crate) entry: &'a Entry,
}

impl<'a> Source<'a> {
    /// The path of the object in the file, with `/` as separator.
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

    /// Index of the directory in the output into which the object is written.
    pub(crate) fn directory(&self, output: &MergeOutput) -> usize {
        let parent = self.path().strip_suffix(&self.key().name).map_or("", |parent| parent.trim_end_matches('/'));
        output.file.directory(parent).unwrap_or(TOP)
    }

    /// The name of the object in the output, if it is the only object at its path.
    pub(crate) fn object_name(&self) -> ObjectName {
        ObjectName::of_key(self.key())
    }
}

/// Returns the stored bytes of an object, without the key that precedes them.
pub(crate) fn stored_object(reader: &mut MetadataReader<'_>, key: &TKey) -> Result<Bytes> {
    let record = reader.until_known(|loaded| loaded.get(key.seek, key.size).map(Bytes::copy_from_slice))?;
    Ok(record.slice(key.key_size as usize..))
}
