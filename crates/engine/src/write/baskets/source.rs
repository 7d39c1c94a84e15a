//! Baskets of inputs, and the new baskets that are made from their entries.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use branchline_format::basket::decode::Counts;
use branchline_format::basket::embedded::EmbeddedBasket;
use branchline_format::basket::{BasketRecord, Plain};
use branchline_format::error::{ErrorKind, FormatError};
use branchline_format::layout::Kind;
use branchline_format::write::{BasketForm, BasketFrame, BasketMaker, BasketTools, Entries, NewBasket};
use bytes::Bytes;

use crate::error::{ReadError, Result};
use crate::write::request::selection::Selection;

/// The bytes of a basket in memory.
#[derive(Debug)]
pub(crate) enum Stored {
    Record(Bytes),
    Embedded(Arc<EmbeddedBasket>),
}

/// A basket of an input.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) stored: Stored,
    pub(crate) input: Arc<InputBranches>,
    pub(crate) branch: usize,
    /// The index of the basket in its branch, and the entry range of the basket in the tree.
    pub(crate) basket: usize,
    pub(crate) entries: Range<u64>,
    /// Element counts, if the basket does not store where its entries begin.
    pub(crate) counts: Option<Arc<Counts>>,
    /// The parsed entries of the basket. Parsed on first use.
    pub(crate) taken_apart: OnceLock<std::result::Result<Entries, FormatError>>,
}

/// The branches of an input.
#[derive(Debug)]
pub(crate) struct InputBranches {
    pub(crate) file_path: String,
    pub(crate) tree_name: String,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) paths: Vec<String>,
    pub(crate) process_ids_before: u16,
    pub(crate) selection: Option<Arc<Selection>>,
}

impl Stored {
    /// Whether the basket stores where its entries begin.
    pub(crate) fn says_bounds(&self) -> bool {
        match self {
            // If the record is damaged, parsing it will report the error.
            Self::Record(record) => BasketRecord::of(record).map_or(true, |basket| basket.stores_bounds()),
            Self::Embedded(embedded) => embedded.offsets.is_some(),
        }
    }
}

impl Source {
    /// Number of bytes that the basket takes in memory.
    pub(crate) fn stored_bytes(&self) -> u64 {
        match &self.stored {
            Stored::Record(record) => record.len() as u64,
            Stored::Embedded(embedded) => embedded.data.len() as u64,
        }
    }

    /// Size of the entries before compression, according to the key.
    pub(crate) fn plain_bytes(&self) -> u64 {
        match &self.stored {
            Stored::Record(record) => plain_bytes(record),
            Stored::Embedded(embedded) => embedded.data.len() as u64,
        }
    }

    fn error(&self, error: &FormatError) -> ReadError {
        let path = self.input.paths.get(self.branch).map_or("", String::as_str);
        let name = format!("tree {}: branch {path}: basket {}", self.input.tree_name, self.basket);
        let named = ReadError::from_format(&self.input.file_path, &error.clone().in_object(name));
        match error.kind {
            ErrorKind::Unsupported => {
                named.with_hint("branchline does not support rewriting this branch yet; use slim to leave it out")
            }
            _ => named,
        }
    }

    fn take_apart(&self, tools: &mut BasketTools) -> std::result::Result<Entries, FormatError> {
        let unknown = Kind::Group;
        let kind = self.input.kinds.get(self.branch).unwrap_or(&unknown);
        let (counts, before) = (self.counts.as_deref(), self.input.process_ids_before);
        match &self.stored {
            // The basket was generated because its file lacks the branch. Such a file may not describe the branch's
            // class.
            Stored::Embedded(embedded) if embedded.made_with.is_some() && matches!(kind, Kind::Unreadable { .. }) => {
                Entries::of_empty(&Plain::embedded(embedded), before)
            }
            Stored::Embedded(embedded) => Entries::of(&Plain::embedded(embedded), kind, counts, before),
            Stored::Record(record) => {
                let own = process_ids_before(record);
                let basket = BasketRecord::parse(record, self.entries.end - self.entries.start)?;
                let bytes = tools.decompress(&basket)?;
                Entries::of(&basket.plain(bytes), kind, counts, all_process_ids_before(own, before)?)
            }
        }
    }
}

/// Returns the size of a record before compression, according to its key.
pub(crate) fn plain_bytes(record: &[u8]) -> u64 {
    let number = record.get(6..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four));
    number.into()
}

/// Returns the number of process IDs that precede the IDs of a record, which a key with 64-bit offsets stores in the
/// highest bits of fSeekPdir.
fn process_ids_before(record: &[u8]) -> u16 {
    let number =
        |at: usize| record.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |two| u16::from_be_bytes(*two));
    if number(4) > 1000 {
        number(26)
    } else {
        0
    }
}

/// Returns the number of process IDs in the output that precede the IDs of a basket. `own` is the number of IDs in the
/// input file that precede them, and `before` is the number of IDs in the output that precede the input's IDs.
fn all_process_ids_before(own: u16, before: u16) -> std::result::Result<u16, FormatError> {
    let too_many = || FormatError::unsupported("its objects refer to more process IDs than ROOT supports");
    own.checked_add(before).ok_or_else(too_many)
}

/// Entries of one basket that are rewritten into new baskets.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) source: Arc<Source>,
    /// The entry range of the slice in the tree.
    pub(crate) entries: Range<u64>,
}

/// Entries of one branch that a thread rewrites into new baskets.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) branch: usize,
    pub(crate) frame: BasketFrame,
    pub(crate) form: BasketForm,
    pub(crate) slices: Vec<Slice>,
}

/// The new baskets of a branch.
pub(crate) struct MadeBaskets {
    pub(crate) branch: usize,
    pub(crate) baskets: Result<Vec<NewBasket>>,
}

/// Makes the baskets of a job.
pub(crate) fn make(tools: &mut BasketTools, job: Job) -> MadeBaskets {
    let branch = job.branch;
    MadeBaskets { branch, baskets: baskets(tools, job) }
}

fn baskets(tools: &mut BasketTools, job: Job) -> Result<Vec<NewBasket>> {
    let Some(first) = job.slices.first().map(|slice| Arc::clone(&slice.source)) else { return Ok(Vec::new()) };
    let mut maker = BasketMaker::new(job.frame, job.form, tools).map_err(|error| first.error(&error))?;
    // Each source basket is dropped with its last slice, unless later jobs need it too.
    for slice in job.slices {
        slice.add_to(&mut maker)?;
    }
    maker.finish().map_err(|error| first.error(&error))
}

impl Slice {
    fn add_to(&self, maker: &mut BasketMaker<'_>) -> Result<()> {
        let source = &self.source;
        let entries = source.taken_apart.get_or_init(|| source.take_apart(maker.tools()));
        let entries = entries.as_ref().map_err(|error| source.error(error))?;
        let mut rest = self.entries.clone();
        while !rest.is_empty() {
            let run = match &source.input.selection {
                Some(selection) => selection.first_run(rest.clone()),
                None => rest.clone(),
            };
            let start = source.entries.start;
            let local = (run.start - start) as usize..(run.end - start) as usize;
            maker.add(entries, local).map_err(|error| source.error(&error))?;
            rest.start = run.end;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn more_process_ids_than_there_is_room_for_are_refused() {
        assert_eq!(all_process_ids_before(3, 4).unwrap(), 7);
        let error = all_process_ids_before(u16::MAX, 1).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
    }
}
