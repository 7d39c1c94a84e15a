//! The baskets of a branch. Entries are collected until a basket is full, and threads make its record.

use std::ops::Range;
use std::sync::Mutex;

use branchline_format::compress::Setting;
use branchline_format::write::tree::tree_record::BranchKind;
use branchline_format::write::{BasketContents, BasketForm, BasketFrame, BasketTools, NewBasket};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::write::columns::branches::Source;
use crate::write::columns::entries::{BranchValues, EntryBytes, Mismatch};
use crate::write::columns::writer::Values;
use crate::write::spare::{locked, Room, Rooms};

/// Entries given in one call become a separate basket if they fill at least 1/`BASKET_FROM_DIVISOR` of a basket. Fewer
/// entries are streamed into memory, and wait for more entries.
const BASKET_FROM_DIVISOR: usize = 2;

/// The properties that all baskets of a branch have in common.
#[derive(Clone)]
pub(crate) struct BranchForm {
    pub(crate) name: String,
    /// The title of the branch, if it differs from the default for the branch's kind.
    pub(crate) title: Option<String>,
    pub(crate) kind: BranchKind,
    pub(crate) source: Source,
    pub(crate) frame: BasketFrame,
    pub(crate) key_size: usize,
    /// Approximate size of a basket before compression.
    pub(crate) basket_bytes: usize,
    pub(crate) setting: Setting,
}

/// The entries of one basket.
#[derive(Debug)]
pub(crate) enum BasketEntries {
    /// Streamed entries from several calls. A thread takes the entries out of the mutex.
    Streamed(Mutex<EntryBytes>),
    /// A range of the values of the current call.
    Given(Range<usize>),
}

/// Entries of a branch that do not yet fill a basket. They are either streamed, or a range of the current values.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenBasket {
    streamed: EntryBytes,
    given: Range<usize>,
}

/// Memory that a thread reuses from basket to basket.
#[derive(Default)]
pub(crate) struct BasketRoom {
    tools: BasketTools,
    entries: EntryBytes,
}

/// Basket rooms that no thread is using.
pub(crate) static ROOMS: Rooms<BasketRoom> = Rooms::new();

impl Room for BasketRoom {
    fn bytes(&self) -> usize {
        let starts = self.entries.starts.as_ref().map_or(0, Vec::capacity);
        self.tools.bytes() + self.entries.data.capacity() + 4 * starts
    }
}

impl BasketEntries {
    /// Approximate size of the entries before compression.
    pub(crate) fn bytes(&self, form: &BranchForm) -> usize {
        match self {
            Self::Streamed(streamed) => locked(streamed).bytes(),
            Self::Given(_) => form.basket_bytes,
        }
    }

    /// Number of bytes of streamed entries in memory.
    pub(crate) fn streamed_bytes(&self) -> usize {
        match self {
            Self::Streamed(streamed) => locked(streamed).bytes(),
            Self::Given(_) => 0,
        }
    }
}

impl OpenBasket {
    /// Adds entries. Calls `full` with the entries of each basket that becomes full.
    pub(crate) fn take(
        &mut self,
        form: &BranchForm,
        values: &BranchValues<'_>,
        wanted: Range<usize>,
        full: &mut impl FnMut(BasketEntries),
    ) -> std::result::Result<(), Mismatch> {
        let basket_bytes = form.basket_bytes;
        let mut start = wanted.start;
        if self.streamed.count > 0 {
            let room = (basket_bytes + form.key_size).saturating_sub(self.streamed.bytes());
            let filling = values.filling(wanted.clone(), room)?;
            start += filling.unwrap_or(wanted.len());
            values.add(wanted.start..start, &mut self.streamed)?;
            if filling.is_none() {
                return Ok(());
            }
            full(BasketEntries::Streamed(std::mem::take(&mut self.streamed).into()));
        } else if !self.given.is_empty() {
            start = self.given.start;
        }
        while let Some(count) = values.filling(start..wanted.end, basket_bytes)? {
            let end = start + count.max(1).min(wanted.end - start);
            full(BasketEntries::Given(start..end));
            start = end;
        }
        self.given = start..wanted.end;
        Ok(())
    }

    /// Takes the open entries of the current values if they are enough for a separate basket. Called before the current
    /// values are dropped.
    pub(crate) fn end_given(
        &mut self,
        form: &BranchForm,
        values: &BranchValues<'_>,
    ) -> std::result::Result<Option<BasketEntries>, Mismatch> {
        let is_enough = values.filling(self.given.clone(), form.basket_bytes / BASKET_FROM_DIVISOR)?.is_some();
        Ok(is_enough.then(|| BasketEntries::Given(std::mem::take(&mut self.given))))
    }

    /// Streams the open entries of the current values, because these values are about to be dropped.
    pub(crate) fn keep(&mut self, form: &BranchForm, values: &BranchValues<'_>) -> std::result::Result<(), Mismatch> {
        let given = std::mem::take(&mut self.given);
        if given.is_empty() {
            return Ok(());
        }
        self.streamed.clear(form.key_size, !form.kind.is_fixed());
        values.add(given, &mut self.streamed)
    }

    /// Number of bytes of streamed entries in memory.
    pub(crate) fn streamed_bytes(&self) -> usize {
        self.streamed.bytes()
    }

    /// Takes the open entries. Returns None if there are none.
    pub(crate) fn end(&mut self) -> Option<BasketEntries> {
        let given = std::mem::take(&mut self.given);
        if self.streamed.count > 0 {
            return Some(BasketEntries::Streamed(std::mem::take(&mut self.streamed).into()));
        }
        (!given.is_empty()).then_some(BasketEntries::Given(given))
    }
}

impl BranchForm {
    /// Selects the values of this branch from the values of all fields.
    pub(crate) fn values<'a>(&'a self, fields: &'a [Values<'a>], path: &str) -> Result<BranchValues<'a>> {
        BranchValues::of(&self.source, &self.kind, fields).map_err(|reason| self.mismatch(reason, path))
    }

    /// Makes the record of a basket, reusing the memory of `record`.
    pub(crate) fn basket(
        &self,
        entries: &BasketEntries,
        fields: &[Values<'_>],
        (room, record): (&mut BasketRoom, Vec<u8>),
        path: &str,
    ) -> Result<NewBasket> {
        room.tools.reuse(record);
        match entries {
            BasketEntries::Streamed(streamed) => std::mem::swap(&mut room.entries, &mut locked(streamed)),
            BasketEntries::Given(given) => {
                room.entries.clear(self.key_size, !self.kind.is_fixed());
                let added = self.values(fields, path)?.add(given.clone(), &mut room.entries);
                added.map_err(|reason| self.mismatch(reason, path))?;
            }
        }
        let entries = &mut room.entries;
        let named = |error| ReadError::from_format(path, &error);
        let form = BasketForm {
            stores_offsets: entries.starts.is_some(),
            bytes_max: self.basket_bytes,
            setting: self.setting,
        };
        let contents = BasketContents {
            data: &mut entries.data,
            starts: entries.starts.as_deref().unwrap_or_default(),
            displacements: None,
            entries_count: entries.count,
            process_ids_before: 0,
        };
        self.frame.record(&form, contents, &mut room.tools).map_err(named)
    }

    /// Creates the error for values that do not fit the branch.
    pub(crate) fn mismatch(&self, reason: Mismatch, path: &str) -> ReadError {
        let message = format!("branch {}: {reason}", self.name);
        ReadError::new(ReadErrorKind::Unsupported, path, message)
            .with_hint("inputs must have the same branches of the same types")
    }
}
