//! The baskets of a branch: entries are taken until a basket is full, and threads make its record of them.

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

/// What is given at a time is a basket of its own from this part of a basket on: less is streamed, and waits for more.
const BASKET_FROM_SHARE: usize = 2;

/// What all baskets of a branch have in common.
#[derive(Clone)]
pub(crate) struct BranchForm {
    pub(crate) name: String,
    /// Its title, if it is not what the kind makes of it.
    pub(crate) title: Option<String>,
    pub(crate) kind: BranchKind,
    pub(crate) source: Source,
    pub(crate) frame: BasketFrame,
    pub(crate) key_size: usize,
    /// Bytes of a basket before compression, about.
    pub(crate) basket_bytes: usize,
    pub(crate) setting: Setting,
}

/// Entries that make a basket.
#[derive(Debug)]
pub(crate) enum BasketEntries {
    /// Streamed already, for they came in several calls; a thread takes them out.
    Streamed(Mutex<EntryBytes>),
    /// These entries of the values that are given now.
    Given(Range<usize>),
}

/// Entries of a branch that are not enough for a basket yet: either streamed, or a range of the given values.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenBasket {
    streamed: EntryBytes,
    given: Range<usize>,
}

/// What a thread uses again from basket to basket.
#[derive(Default)]
pub(crate) struct BasketRoom {
    tools: BasketTools,
    entries: EntryBytes,
}

/// Those that no thread works in.
pub(crate) static ROOMS: Rooms<BasketRoom> = Rooms::new();

impl Room for BasketRoom {
    fn bytes(&self) -> usize {
        let starts = self.entries.starts.as_ref().map_or(0, Vec::capacity);
        self.tools.bytes() + self.entries.data.capacity() + 4 * starts
    }
}

impl BasketEntries {
    /// Bytes before compression, about.
    pub(crate) fn bytes(&self, form: &BranchForm) -> usize {
        match self {
            Self::Streamed(streamed) => locked(streamed).bytes(),
            Self::Given(_) => form.basket_bytes,
        }
    }

    /// Bytes of memory.
    pub(crate) fn streamed_bytes(&self) -> usize {
        match self {
            Self::Streamed(streamed) => locked(streamed).bytes(),
            Self::Given(_) => 0,
        }
    }
}

impl OpenBasket {
    /// Takes entries. `full` takes those of a basket that has reached its size.
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

    /// Of given values, which are about to go, the open entries, if they are enough for a basket of their own.
    pub(crate) fn end_given(
        &mut self,
        form: &BranchForm,
        values: &BranchValues<'_>,
    ) -> std::result::Result<Option<BasketEntries>, Mismatch> {
        let is_enough = values.filling(self.given.clone(), form.basket_bytes / BASKET_FROM_SHARE)?.is_some();
        Ok(is_enough.then(|| BasketEntries::Given(std::mem::take(&mut self.given))))
    }

    /// Streams the entries of given values, which are about to go.
    pub(crate) fn keep(&mut self, form: &BranchForm, values: &BranchValues<'_>) -> std::result::Result<(), Mismatch> {
        let given = std::mem::take(&mut self.given);
        if given.is_empty() {
            return Ok(());
        }
        self.streamed.clear(form.key_size, !form.kind.is_fixed());
        values.add(given, &mut self.streamed)
    }

    /// Bytes of the entries that are streamed.
    pub(crate) fn streamed_bytes(&self) -> usize {
        self.streamed.bytes()
    }

    /// The entries that are open, if there are any.
    pub(crate) fn end(&mut self) -> Option<BasketEntries> {
        let given = std::mem::take(&mut self.given);
        if self.streamed.count > 0 {
            return Some(BasketEntries::Streamed(std::mem::take(&mut self.streamed).into()));
        }
        (!given.is_empty()).then_some(BasketEntries::Given(given))
    }
}

impl BranchForm {
    /// The values of this branch among those of all fields.
    pub(crate) fn values<'a>(&'a self, fields: &'a [Values<'a>], path: &str) -> Result<BranchValues<'a>> {
        BranchValues::of(&self.source, &self.kind, fields).map_err(|reason| self.mismatch(reason, path))
    }

    /// The record of a basket, in the memory of `record`.
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

    /// The error for values that the branch does not take.
    pub(crate) fn mismatch(&self, reason: Mismatch, path: &str) -> ReadError {
        let message = format!("branch {}: {reason}", self.name);
        ReadError::new(ReadErrorKind::Unsupported, path, message)
            .with_hint("inputs must have the same branches of the same types")
    }
}
