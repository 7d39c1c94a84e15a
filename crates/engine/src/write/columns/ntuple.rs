//! An RNTuple in a file of its own, made from columns of values.

use std::path::PathBuf;

use branchline_format::column::Column as Values;
use branchline_format::compress::Setting;
use branchline_format::ntuple::anchor::CLASS_NAME;
use branchline_format::ntuple::schema::Schema;
use branchline_format::write::classes::ntuple_infos;
use branchline_format::write::FileFrame;
use xxhash_rust::xxh3::xxh3_128;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::columns::fields::{Maker, Shown, Taker};
use crate::write::columns::fill::{each_column, Filler};
use crate::write::new_file::{mark_uuid, NewFile, ObjectName, SlotId, TOP};
use crate::write::output::Output;
use crate::write::pages::cluster::{Columns, Layout};
use crate::write::pages::metadata::{write_metadata, About, Made};

/// The version of ROOT that files from nothing are like.
pub(crate) const ROOT_VERSION: i32 = 64000;

/// What is made.
#[derive(Debug, Clone)]
pub struct NewNtuple {
    /// The file.
    pub output: PathBuf,
    /// Whether a file that is there already is replaced.
    pub replace: bool,
    /// Files that are read for it, none of which may be the output.
    pub inputs: Vec<String>,
    /// Its name.
    pub name: String,
    /// What its author says about it.
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

/// Takes columns of values, and makes a file of them.
pub trait ColumnsWriter: Send {
    /// Adds `count` entries, with the values of each field in the order of the fields.
    fn fill(&mut self, values: &[Values], count: usize) -> Result<()>;

    /// Writes what is open, and gives the file its name.
    fn finish(self: Box<Self>) -> Result<Written>;
}

/// An RNTuple that is being written.
pub struct NtupleWriter {
    about: NewNtuple,
    file: NewFile,
    slot: SlotId,
    schema: Schema,
    made: Vec<Made>,
    columns: Columns,
    takers: Vec<(String, Taker)>,
    /// Entries of the cluster that is being filled.
    open_entries: u64,
}

impl NtupleWriter {
    /// Begins a file with fields for values like these.
    pub fn create(about: NewNtuple, fields: &[(String, Values)], shown: &[Shown]) -> Result<Self> {
        let name = about.output.display().to_string();
        let mut maker = Maker::new(about.layout.setting != Setting::NONE);
        let (mut takers, mut reasons) = (Vec::with_capacity(fields.len()), Vec::new());
        for (field, values) in fields {
            match maker.add(field, values) {
                Ok(taker) => takers.push((field.clone(), taker)),
                Err(reason) => reasons.push((field.as_str(), reason)),
            }
        }
        refuse(&name, &reasons)?;
        for one in shown {
            maker.show(one).map_err(|reason| ReadError::new(ReadErrorKind::Unsupported, &name, reason))?;
        }
        let schema = maker.schema;
        let output = Output::create(&about.output, about.replace, &about.inputs)?;
        let mut file = NewFile::begin(output, frame(&about))?;
        let slot = file.reserve(TOP);
        let columns = Columns::new(&schema, about.layout);
        Ok(Self { about, file, slot, schema, made: Vec::new(), columns, takers, open_entries: 0 })
    }

    fn path(&self) -> String {
        self.about.output.display().to_string()
    }

    fn close_cluster(&mut self) -> Result<()> {
        if self.open_entries == 0 {
            return Ok(());
        }
        for (_, taker) in &self.takers {
            each_column(taker, &mut |column| self.columns.use_column(column));
        }
        let made = self.columns.close(self.file.output(), self.about.date, self.open_entries)?;
        self.made.push(made);
        self.open_entries = 0;
        Ok(())
    }
}

impl ColumnsWriter for NtupleWriter {
    fn fill(&mut self, values: &[Values], count: usize) -> Result<()> {
        if values.len() != self.takers.len() {
            let message = format!("values of {} fields are given for {}", values.len(), self.takers.len());
            return Err(ReadError::internal(&self.path(), message));
        }
        let bytes: u64 = values.iter().map(|column| column.size_bytes() as u64).sum();
        let portion = (count as u64 * limits::FILLED_AT_ONCE_BYTES / bytes.max(1)).max(1);
        let mut start = 0;
        while start < count {
            let room = self.about.layout.cluster_entries.map_or(portion, |most| most - self.open_entries);
            let end = start + room.min(portion).min((count - start) as u64) as usize;
            let path = self.path();
            let mut filler = Filler { columns: &mut self.columns, path: &path };
            for ((name, taker), column) in self.takers.iter().zip(values) {
                filler.add(taker, column, start..end, name)?;
            }
            self.open_entries += (end - start) as u64;
            start = end;
            let is_full = match self.about.layout.cluster_entries {
                Some(most) => self.open_entries >= most,
                None => self.columns.estimated_bytes() >= self.about.layout.cluster_bytes,
            };
            if is_full {
                self.close_cluster()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written> {
        self.close_cluster()?;
        let path = self.path();
        let NewNtuple { name, description, date, layout, .. } = &self.about;
        let about =
            About { name: name.clone(), description: description.clone(), date: *date, setting: layout.setting };
        let anchor = write_metadata(self.file.output(), &about, &self.schema, &self.made)?;
        let key = ObjectName {
            class_name: CLASS_NAME.to_string(),
            name: about.name,
            title: String::new(),
            date: *date,
            cycle: 1,
        };
        self.file.write_object(self.slot, &key, |_| Ok(anchor))?;
        let told = |error| ReadError::from_format(&path, &error);
        let size_bytes = self.file.finish(|key_size| ntuple_infos(key_size).map_err(told))?;
        self.file.output().publish()?;
        let entries_count = self.made.iter().map(|made| made.entries_count).sum();
        Ok(Written { entries_count, clusters_count: self.made.len() as u64, size_bytes })
    }
}

/// Refuses fields that have no equivalent, all of them at once.
pub(crate) fn refuse(path: &str, reasons: &[(&str, String)]) -> Result<()> {
    if reasons.is_empty() {
        return Ok(());
    }
    let all: Vec<&str> = reasons.iter().map(|(_, reason)| reason.as_str()).collect();
    let names: Vec<&str> = reasons.iter().map(|(name, _)| *name).collect();
    let hint = format!("leave out what cannot be converted: --drop '{}'", names.join(","));
    Err(ReadError::new(ReadErrorKind::Unsupported, path, all.join("; ")).with_hint(hint))
}

/// What stands around the records of the file.
pub(crate) fn frame(about: &NewNtuple) -> FileFrame {
    let name = about.output.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let seed = format!("{name} {} {} {:?}", about.name, about.date, about.inputs);
    let mut uuid = xxh3_128(seed.as_bytes()).to_be_bytes();
    mark_uuid(&mut uuid);
    let compress = about.layout.setting.as_root();
    FileFrame { name, date: about.date, uuid, root_version: ROOT_VERSION, compress }
}
