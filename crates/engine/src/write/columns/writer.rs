//! What RNTuples and TTrees that are written share: the request, the trait, and the records of the file itself.

use std::collections::HashMap;
use std::path::PathBuf;

use branchline_format::column::Column;
use branchline_format::compress::Setting;
use branchline_format::write::FileFrame;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::new_file::{mark_uuid, NewFile};
use crate::write::pages::cluster::Layout;

/// Values that are written, in the memory of whoever gives them.
pub type Values<'a> = Column<&'a [u8], &'a [i64]>;

/// The version of ROOT that files from nothing are like.
pub(crate) const ROOT_VERSION: i32 = 64000;

/// The file that is made.
#[derive(Debug, Clone)]
pub struct NewColumnsFile {
    /// The file.
    pub output: PathBuf,
    /// Whether a file that is there already is replaced.
    pub replace: bool,
    /// Files that are read for it, none of which may be the output.
    pub inputs: Vec<String>,
    /// Its name.
    pub name: String,
    /// Its title or description.
    pub description: String,
    /// When it is made, as TDatime packs it.
    pub date: u32,
    /// How it is laid out.
    pub layout: Layout,
}

/// What was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Entries.
    pub entries_count: u64,
    /// Clusters.
    pub clusters_count: u64,
    /// Bytes of the file.
    pub size_bytes: u64,
}

/// A tree or an RNTuple of a file.
#[derive(Debug, Clone)]
pub(crate) struct NewColumns {
    /// The number of its directory.
    pub(crate) directory: usize,
    /// Its name.
    pub(crate) name: String,
    /// Its title or description.
    pub(crate) description: String,
    /// Its cycle.
    pub(crate) cycle: i16,
    /// When it is made, as TDatime packs it.
    pub(crate) date: u32,
    /// How it is laid out.
    pub(crate) layout: Layout,
    /// How branches of a TTree are compressed, by their names, if not as the layout says.
    pub(crate) codecs: HashMap<String, Setting>,
}

/// What a tree or an RNTuple holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// Entries.
    pub entries_count: u64,
    /// Clusters.
    pub clusters_count: u64,
}

/// Takes columns of values, and makes a tree or an RNTuple of them.
pub(crate) trait OpenColumns: Send {
    /// Adds `count` entries, with the values of each field in the order of the fields.
    fn fill(&mut self, file: &mut NewFile, values: &[Values<'_>], count: usize) -> Result<()>;

    /// Writes what waits in memory only to be written together, and baskets or clusters that are large enough to end.
    fn write_full(&mut self, file: &mut NewFile) -> Result<()>;

    /// Writes the tree or RNTuple with all entries as if it were finished, after `write_full`. More can be added; the
    /// records that were written for the open cluster and the metadata are not used then.
    fn snapshot(&self, file: &mut NewFile) -> Result<Filled>;

    /// Writes the open cluster and the metadata.
    fn finish(self: Box<Self>, file: &mut NewFile) -> Result<Filled>;

    /// Adds branches or fields, with their values for all entries so far.
    fn add_columns(&mut self, file: &mut NewFile, fields: &[NamedColumn<'_>]) -> Result<()>;
}

/// Values with the name of their field or branch.
#[derive(Debug, Clone)]
pub struct NamedColumn<'a> {
    /// The name.
    pub name: String,
    /// The values, of which only the types count when a file is begun.
    pub values: Values<'a>,
    /// The branch of a TTree that is to count the elements of these lists; without it lists become vectors.
    pub counter: Option<String>,
    /// Descriptions of the field and of fields in it, by their paths. An RNTuple has them.
    pub descriptions: Vec<(String, String)>,
}

/// A field that cannot be written.
pub(crate) struct RefusedField {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Refuses fields that have no equivalent, all of them at once.
pub(crate) fn refuse(path: &str, fields: &[RefusedField]) -> Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    let all: Vec<&str> = fields.iter().map(|field| field.reason.as_str()).collect();
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let hint = format!("leave out what cannot be converted: --drop '{}'", names.join(","));
    Err(ReadError::new(ReadErrorKind::Unsupported, path, all.join("; ")).with_hint(hint))
}

/// The records of the file itself.
pub(crate) fn frame(new: &NewColumnsFile) -> FileFrame {
    let name = new.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let seed = format!("{name} {} {} {:?}", new.name, new.date, new.inputs);
    let mut uuid = xxh3_128(seed.as_bytes()).to_be_bytes();
    mark_uuid(&mut uuid);
    let compress = new.layout.setting.as_root();
    FileFrame { name, date: new.date, uuid, root_version: ROOT_VERSION, compress }
}
