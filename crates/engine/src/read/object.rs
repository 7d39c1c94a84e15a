//! Reads objects that are not trees: histograms, graphs and any other object with a key.
//!
//! ```no_run
//! use branchline_engine::file::File;
//! use branchline_storage::Access;
//!
//! let histogram = File::open("histograms.root", &Access::default())?.object("pt")?;
//! # Ok::<(), branchline_engine::error::ReadError>(())
//! ```

use branchline_format::error::FormatError;
use branchline_format::file::TKey;
use branchline_format::objects::Program;
use branchline_slab::Buffer;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::key_path::KeyPath;
use crate::file::File;
use crate::limits;
use crate::read::decode::chunk::Values;

impl File {
    /// Reads the object with this path (`name;cycle` for an older cycle) as a column with one record. The record has
    /// the members that the streamer infos list for the class, including the members of TObject. If an object behind a
    /// pointer cannot be read, it becomes a record with the single member `@unread`, which contains the reason.
    pub fn object(&self, path: &str) -> Result<Values> {
        let key = self.find_object(path)?;
        let refuse = |what: &str| {
            let message = format!("{path:?} is a {what}, not an object with members");
            Err(ReadError::new(ReadErrorKind::Unsupported, self.path(), message))
        };
        match key.class_name.as_str() {
            "TDirectory" | "TDirectoryFile" => refuse("directory"),
            _ if self.is_tree(&key) => refuse("tree"),
            _ => self.members_of(path, &key),
        }
    }

    /// Reads the members of the TTree with this path in the same way as the members of any other object.
    pub fn tree_members(&self, path: &str) -> Result<Values> {
        self.members_of(path, &self.find_object(path)?)
    }

    fn members_of(&self, path: &str, key: &TKey) -> Result<Values> {
        let mut reader = self.metadata_reader();
        if let Some((offset, piece)) = &*self.lock_last_piece() {
            reader.loaded.add(*offset, piece.clone());
        }
        let plain = reader.object(key)?;
        if let Some((offset, piece)) = reader.last_piece {
            let is_small = piece.len() as u64 <= limits::METADATA_PIECE_BYTES;
            *self.lock_last_piece() = is_small.then_some((offset, piece));
        }
        let named = |error: FormatError| {
            ReadError::from_format(self.path(), &error.in_object(format!("{} {path}", key.class_name)))
        };
        let program = match self.lock_programs().get(&key.class_name) {
            Some(known) => known.clone(),
            None => Program::of_class(self.whole_classes(), &key.class_name).map_err(named)?,
        };
        let decoded = program.decode_object(&plain, key.key_size).map_err(named);
        // A damaged object may have left wrong headers in the program, so compile a new program for the next object.
        match &decoded {
            Ok(_) => self.lock_programs().insert(key.class_name.clone(), program),
            Err(_) => self.lock_programs().remove(&key.class_name),
        };
        Ok(decoded?.map(&mut Buffer::Bytes, &mut Buffer::Numbers))
    }

    pub(crate) fn find_object(&self, path: &str) -> Result<TKey> {
        let wanted = KeyPath::parse(path);
        let keys = self.find(wanted.path)?.into_iter();
        let found = keys.filter(|key| wanted.fits(key)).max_by_key(|key| key.cycle);
        let missing = || ReadError::new(ReadErrorKind::NoSuchKey, self.path(), format!("there is no object {path:?}"));
        found.ok_or_else(missing)
    }
}
