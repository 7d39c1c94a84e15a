//! The RNTuples of several files become one.

use std::sync::Arc;

use branchline_format::compress::Setting;
use branchline_format::directory::Entry;
use branchline_format::ntuple::schema::Schema;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::merge::output::Output;
use crate::merge::Order;

use super::copy::Copying;
use super::input::Input;
use super::schema::{join, of_first};
use super::sink::{About, Sink};
use super::zeros::Zeros;

/// How header, footer and page lists are compressed where the first file does not say.
const USUAL_SETTING: &str = "zstd:5";

/// How RNTuples are merged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NtupleOptions {
    /// In which order the pages of an input are written.
    pub(crate) order: Order,
    /// Another compression, if it is wanted.
    pub(crate) setting: Option<Setting>,
}

/// The schema of the output, which is known when all inputs were looked at.
pub(crate) struct NtuplePlan {
    schema: Schema,
    about: About,
    first: String,
}

/// A merge that goes on.
pub(crate) struct NtupleMerge {
    plan: NtuplePlan,
    options: NtupleOptions,
    sink: Sink,
    zeros: Zeros,
    pages_count: u64,
    page_bytes: u64,
}

impl NtuplePlan {
    /// The schema of the first input.
    pub(crate) fn new(file: &Arc<File>, entry: &Entry, setting: Option<Setting>) -> Result<Self> {
        let input = Input::open(file, entry)?;
        let usual = || USUAL_SETTING.parse().unwrap_or(Setting::NONE);
        let setting = setting.or_else(|| Setting::of_root(i64::from(file.header().compress))).unwrap_or_else(usual);
        let (name, description) = (entry.key.name.clone(), input.ntuple.description().to_string());
        let about = About { name, description, date: input.date, setting };
        Ok(Self { schema: of_first(&input.ntuple.schema), about, first: file.path().to_string() })
    }

    /// Adds what a further input needs, and refuses one with other fields.
    pub(crate) fn add(&mut self, file: &Arc<File>, entry: &Entry) -> Result<()> {
        let input = Input::open(file, entry)?;
        join(&mut self.schema, &input.ntuple.schema).map_err(|what| differs(&input, &self.first, what)).map(|_| ())
    }

    /// Writes the header.
    pub(crate) fn begin(self, options: NtupleOptions, output: &mut Output) -> Result<NtupleMerge> {
        let sink = Sink::begin(output, self.about.clone(), &self.schema)?;
        let zeros = Zeros::new(self.about.setting, self.about.date);
        Ok(NtupleMerge { plan: self, options, sink, zeros, pages_count: 0, page_bytes: 0 })
    }
}

impl NtupleMerge {
    /// Adds the clusters of an input. `copied` is told how many bytes were copied, and may end the merge.
    pub(crate) fn add(
        &mut self,
        file: &Arc<File>,
        entry: &Entry,
        output: &mut Output,
        copied: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let input = Input::open(file, entry)?;
        let known = self.plan.schema.columns.len();
        let map = join(&mut self.plan.schema, &input.ntuple.schema);
        let map = map.map_err(|what| differs(&input, &self.plan.first, what))?;
        if self.plan.schema.columns.len() != known {
            return Err(input.damaged("the file was changed while it was merged".to_string()));
        }
        let copying = Copying {
            input: &input,
            map: &map,
            schema: &self.plan.schema,
            order: self.options.order,
            setting: self.options.setting,
        };
        let page_bytes = &mut self.page_bytes;
        self.pages_count += copying.run(&mut self.sink, &mut self.zeros, output, &mut |bytes| {
            *page_bytes += bytes;
            copied(bytes)
        })?;
        Ok(())
    }

    /// Entries so far.
    pub(crate) fn entries_count(&self) -> u64 {
        self.sink.entries_count()
    }

    /// Pages so far, and their bytes.
    pub(crate) fn pages(&self) -> (u64, u64) {
        (self.pages_count, self.page_bytes)
    }

    /// Writes what comes behind the pages; answers with the key of the anchor for the list of keys.
    pub(crate) fn finish(self, output: &mut Output) -> Result<Vec<u8>> {
        self.sink.finish(output)
    }
}

fn differs(input: &Input, first: &str, what: String) -> ReadError {
    let message = format!("{}: {what}, unlike {first}", input.ntuple.path());
    ReadError::new(ReadErrorKind::Unsupported, input.file.path(), message)
        .with_hint("only RNTuples with the same fields can be merged; merge these files apart")
}
