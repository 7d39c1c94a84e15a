//! Code that RNTuples and TTrees share for writing columns: the request, the trait, and the properties of a new file.

use std::collections::HashMap;
use std::path::PathBuf;

use branchline_format::column::Column;
use branchline_format::compress::Setting;
use branchline_format::write::FileFrame;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::new_file::{mark_uuid, NewFile};
use crate::write::pages::cluster::Layout;

/// Values to write, borrowed from the caller.
pub type Values<'a> = Column<&'a [u8], &'a [i64]>;

/// The ROOT version that new files claim.
pub(crate) const ROOT_VERSION: i32 = 64000;

/// The request for a new file.
#[derive(Debug, Clone)]
pub struct NewColumnsFile {
    /// The output path.
    pub output: PathBuf,
    /// Whether an existing output file is replaced.
    pub replace: bool,
    /// Files from which the values are read. The output must not be among them.
    pub inputs: Vec<String>,
    /// The name of the tree or RNTuple.
    pub name: String,
    /// The title or description.
    pub description: String,
    /// The creation time, packed as a TDatime.
    pub date: u32,
    /// The layout.
    pub layout: Layout,
}

/// The result of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Number of entries.
    pub entries_count: u64,
    /// Number of clusters.
    pub clusters_count: u64,
    /// Size of the file.
    pub size_bytes: u64,
}

/// A new tree or RNTuple in a file.
#[derive(Debug, Clone)]
pub(crate) struct NewColumns {
    /// Index of the directory.
    pub(crate) directory: usize,
    /// The name.
    pub(crate) name: String,
    /// The title or description.
    pub(crate) description: String,
    /// The cycle.
    pub(crate) cycle: i16,
    /// The creation time, packed as a TDatime.
    pub(crate) date: u32,
    /// The layout.
    pub(crate) layout: Layout,
    /// Compression settings of TTree branches, keyed by branch name, where the settings differ from the layout.
    pub(crate) codecs: HashMap<String, Setting>,
}

/// The size of a tree or an RNTuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// Number of entries.
    pub entries_count: u64,
    /// Number of clusters.
    pub clusters_count: u64,
}

/// Writes columns of values into a tree or an RNTuple.
pub(crate) trait OpenColumns: Send {
    /// Adds `count` entries. `values` are in the order of the fields.
    fn fill(&mut self, file: &mut NewFile, values: &[Values<'_>], count: usize) -> Result<()>;

    /// Writes everything that is only buffered, and the baskets or clusters that are large enough to be closed.
    fn write_full(&mut self, file: &mut NewFile) -> Result<()>;

    /// Writes the tree or RNTuple with all its entries as if it were finished. Must follow `write_full`. More entries
    /// can still be added; they supersede the written metadata and the written open cluster.
    fn snapshot(&self, file: &mut NewFile) -> Result<Filled>;

    /// Writes the open cluster and the metadata.
    fn finish(self: Box<Self>, file: &mut NewFile) -> Result<Filled>;

    /// Adds branches or fields, with their values for all existing entries.
    fn add_columns(&mut self, file: &mut NewFile, fields: &[NamedColumn<'_>]) -> Result<()>;
}

/// Values with the name of their field or branch.
#[derive(Debug, Clone)]
pub struct NamedColumn<'a> {
    /// The name.
    pub name: String,
    /// The values. Only their types matter when a file is created.
    pub values: Values<'a>,
    /// The TTree branch with the element counts of the lists. If None, lists become vectors.
    pub counter: Option<String>,
    /// Descriptions of an RNTuple field and its subfields, as pairs of path and description.
    pub descriptions: Vec<(String, String)>,
}

/// A field that cannot be written.
pub(crate) struct RefusedField {
    pub(crate) name: String,
    pub(crate) reason: String,
}

/// Returns an error that names all fields that cannot be written, if there are any.
pub(crate) fn refuse(path: &str, fields: &[RefusedField]) -> Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    let all: Vec<&str> = fields.iter().map(|field| field.reason.as_str()).collect();
    let names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    let hint = format!("leave out the fields that cannot be converted: --drop '{}'", names.join(","));
    Err(ReadError::new(ReadErrorKind::Unsupported, path, all.join("; ")).with_hint(hint))
}

/// Returns the name, date, UUID, ROOT version and compression of a new file.
pub(crate) fn frame(new: &NewColumnsFile) -> FileFrame {
    let name = new.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let seed = format!("{name} {} {} {:?}", new.name, new.date, new.inputs);
    let mut uuid = xxh3_128(seed.as_bytes()).to_be_bytes();
    mark_uuid(&mut uuid);
    let compress = new.layout.setting.as_root();
    FileFrame { name, date: new.date, uuid, root_version: ROOT_VERSION, compress }
}
