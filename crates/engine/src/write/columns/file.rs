//! Creates a file with one TTree or RNTuple from columns of values.

use std::collections::HashMap;

use branchline_format::error::Result as FormatResult;
use branchline_format::write::object::classes::{ntuple_infos, tree_infos};
use branchline_format::write::tree::tree_record::BranchKind;

use crate::error::{ReadError, Result};
use crate::write::columns::fields::Shown;
use crate::write::columns::ntuple::OpenNtuple;
use crate::write::columns::tree::OpenTree;
use crate::write::columns::writer::{
    frame, Filled, NamedColumn, NewColumns, NewColumnsFile, OpenColumns, Values, Written,
};
use crate::write::new_file::{NewFile, TOP};
use crate::write::output::Output;

/// A file with one TTree or RNTuple that is being written. If it is dropped before it is finished, the file is removed.
pub struct ColumnsFile {
    file: NewFile,
    columns: Box<dyn OpenColumns>,
    infos: fn(u64) -> FormatResult<Vec<u8>>,
}

impl ColumnsFile {
    /// Creates a file with a TTree whose branches have the types of the fields' values.
    pub fn tree(new: NewColumnsFile, fields: &[NamedColumn<'_>]) -> Result<Self> {
        let (mut file, new) = begin(new)?;
        let columns = Box::new(OpenTree::begin(&mut file, new, fields, &BranchKind::Text)?);
        Ok(Self { file, columns, infos: tree_infos })
    }

    /// Creates a file with an RNTuple whose fields have the types of the given values.
    pub fn ntuple(new: NewColumnsFile, fields: &[NamedColumn<'_>], shown: &[Shown]) -> Result<Self> {
        let (mut file, new) = begin(new)?;
        let columns = Box::new(OpenNtuple::begin(&mut file, new, fields, shown)?);
        Ok(Self { file, columns, infos: ntuple_infos })
    }

    /// Adds `count` entries. `values` are in the order of the fields.
    pub fn fill(&mut self, values: &[Values<'_>], count: usize) -> Result<()> {
        self.columns.fill(&mut self.file, values, count)
    }

    /// Writes the open cluster and the metadata, and publishes the file.
    pub fn finish(mut self) -> Result<Written> {
        let Filled { entries_count, clusters_count } = self.columns.finish(&mut self.file)?;
        let path = self.file.path();
        let infos = |key_size| (self.infos)(key_size).map_err(|error| ReadError::from_format(&path, &error));
        let size_bytes = self.file.finish(infos)?;
        self.file.output().publish()?;
        Ok(Written { entries_count, clusters_count, size_bytes })
    }
}

fn begin(new: NewColumnsFile) -> Result<(NewFile, NewColumns)> {
    let file = NewFile::begin(Output::create(&new.output, new.replace, &new.inputs)?, frame(&new))?;
    let NewColumnsFile { name, description, date, layout, .. } = new;
    Ok((file, NewColumns { directory: TOP, name, description, cycle: 1, date, layout, codecs: HashMap::new() }))
}
