//! What members of an object that was taken apart are replaced with.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::error::{FormatError, Result};
use crate::marks::byte_count;
use crate::numbers::number::Number;

use super::addend::CELLS;
use crate::write::key::push_string;
use crate::write::object::axis::Label;
use crate::write::object::family::OF_HISTOGRAMS;
use crate::write::object::numbers::Numbers;
use crate::write::object::recording::Recording;
use crate::write::object::sparse::Sparse;
use crate::write::object::token::{MemberStorage, RecordedMember};

/// What members are replaced with.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub(crate) bytes: HashMap<usize, Vec<u8>>,
    pub(crate) labels: HashMap<usize, Vec<Label>>,
    pub(crate) chunks: HashMap<usize, Sparse>,
    pub(crate) dropped: HashSet<u64>,
    pub(crate) name: Option<NewName>,
}

/// The name of the object, where it is stored and what it becomes.
#[derive(Debug, Clone)]
pub(crate) struct NewName {
    pub(crate) at: Range<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Changes {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the object another name and title, if it is a TNamed that has the name `old`; whether it is. `bases` is
    /// its class with the first base class of each. Without a title it keeps its own.
    pub fn rename(
        &mut self,
        recording: &Recording<'_>,
        bases: &[&str],
        old: &str,
        (name, title): (&str, Option<&str>),
    ) -> Result<bool> {
        let Some([name_at, title_at]) = recording.places_of_name(bases, old) else { return Ok(false) };
        let mut bytes = Vec::new();
        push_string(&mut bytes, name.as_bytes())?;
        let end = match title {
            Some(title) => {
                push_string(&mut bytes, title.as_bytes())?;
                title_at.end
            }
            None => name_at.end,
        };
        self.name = Some(NewName { at: name_at.start..end, bytes });
        Ok(true)
    }

    /// Replaces numbers of a histogram by the names of their members; those of its cells have the name `cells`. Of an
    /// array there must be as many as before, or as many as there are cells where it had none.
    pub fn histogram(&mut self, recording: &Recording<'_>, name: &str, values: &[f64]) -> Result<()> {
        const ENTRIES_WAIT: &str = "it has entries that are not in its bins yet";
        let refused = |what: &str| FormatError::unsupported(format!("{name}: {what}"));
        let of = |name: &'static str| recording.find(0, name);
        if recording.value(0, "fBufferSize") > 0
            && of("fBuffer").is_some_and(|(_, one)| recording.stored(one).len() > 9)
        {
            return Err(refused(ENTRIES_WAIT));
        }
        let cells = || CELLS.iter().find_map(|name| of(name));
        let known = CELLS.iter().chain(OF_HISTOGRAMS).find(|known| **known == name);
        let found = if name == "cells" { cells() } else { known.and_then(|name| of(name)) };
        let (index, member) = found.ok_or_else(|| refused("its class has no such numbers"))?;
        let numbers_of = |member: &RecordedMember| Numbers::of(recording.stored(member), &member.kind);
        let old = numbers_of(member)?.ok_or_else(|| refused("these are no numbers"))?;
        let cells_count = match cells() {
            Some((_, cells)) => numbers_of(cells)?.map_or(0, |numbers| numbers.len()),
            None => 0,
        };
        if values.len() != old.len() && !(old.len() == 0 && values.len() == cells_count) {
            return Err(refused(&format!("{} numbers are given for {}", values.len(), old.len())));
        }
        let new = old.replaced(values).ok_or_else(|| refused("a number does not fit into the type of its bins"))?;
        self.stored(index, new.stored(&member.kind));
        Ok(())
    }

    /// Replaces a number. A member that a class of this version does not have is left out.
    pub fn number(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str, value: i64) -> Result<()> {
        let Some((index, member)) = recording.find(owner, name) else { return Ok(()) };
        let MemberStorage::Number(number) = member.kind else { return Err(mismatch(name)) };
        let mut bytes = Vec::new();
        number.write(value, &mut bytes).ok_or_else(|| too_large(name, value))?;
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Replaces a variable array; its counter is another member.
    pub fn array(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str, values: &[i64]) -> Result<()> {
        let Some((index, member)) = recording.find(owner, name) else { return Ok(()) };
        let (number, flag) = match member.kind {
            MemberStorage::Array(number) => (number, u8::from(!values.is_empty())),
            MemberStorage::Seeks(Number::I32) if values.iter().all(|value| i32::try_from(*value).is_ok()) => {
                (Number::I32, 1)
            }
            MemberStorage::Seeks(_) => (Number::I64, 2),
            MemberStorage::Number(_)
            | MemberStorage::Counted(_)
            | MemberStorage::Vector(_)
            | MemberStorage::Other
            | MemberStorage::Pointers
            | MemberStorage::Link => return Err(mismatch(name)),
        };
        let mut bytes = vec![flag];
        for value in values {
            number.write(*value, &mut bytes).ok_or_else(|| too_large(name, *value))?;
        }
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Leaves out objects that arrays point to, with the objects that only these point to.
    pub fn without(&mut self, ids: &HashSet<u64>) {
        self.dropped.extend(ids);
    }

    /// Replaces the bytes of a member.
    pub(crate) fn stored(&mut self, index: usize, bytes: Vec<u8>) {
        self.bytes.insert(index, bytes);
    }

    /// Replaces the names of an axis' bins.
    pub(crate) fn labels(&mut self, index: usize, labels: Vec<Label>) {
        self.labels.insert(index, labels);
    }

    /// Replaces the bins of a THnSparse.
    pub(crate) fn chunks(&mut self, index: usize, bins: Sparse) {
        self.chunks.insert(index, bins);
    }

    /// Clears the features of a branch (TBranch::fIOFeatures): with them ROOT expects all baskets to leave offsets out.
    pub fn no_features(&mut self, recording: &Recording<'_>, owner: usize) -> Result<()> {
        let Some((index, member)) = recording.find(owner, "fIOFeatures") else { return Ok(()) };
        let mut bytes = recording.alone(member)?;
        if let Some(features) = bytes.last_mut() {
            *features = 0;
        }
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Takes from a branch the baskets that it had in memory (TBranch::fBaskets). Up to version 9 ROOT counts on room
    /// for all baskets there.
    pub fn no_baskets(&mut self, recording: &Recording<'_>, owner: usize, room: usize) -> Result<()> {
        const NAME: &str = "fBaskets";
        /// Version 3, a TObject on the heap, an empty name.
        const HEAD: [u8; 13] = [0, 3, 0, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0];
        let Some((index, member)) = recording.find(owner, NAME) else { return Ok(()) };
        if member.kind != MemberStorage::Pointers {
            return Err(mismatch(NAME));
        }
        let seeks = recording.find(owner, "fBasketSeek").map(|(_, member)| &member.kind);
        let count = if matches!(seeks, Some(MemberStorage::Seeks(_))) { room } else { 0 };
        let too_many = || too_large(NAME, count as i64);
        let size = byte_count(HEAD.len() + 4 + 4 + 4 * count);
        let mut bytes = size.ok_or_else(too_many)?.to_be_bytes().to_vec();
        bytes.extend(HEAD);
        bytes.extend((count as u32).to_be_bytes());
        bytes.resize(bytes.len() + 4 + 4 * count, 0); // the lower bound, and pointers to nothing
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Makes a pointer null.
    pub fn no_link(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str) -> Result<()> {
        self.link(recording, owner, name, vec![0; 4])
    }

    /// Replaces a pointer and the object behind it, which refers to nothing.
    pub fn link(
        &mut self,
        recording: &Recording<'_>,
        owner: usize,
        name: &'static str,
        pointed: Vec<u8>,
    ) -> Result<()> {
        let Some((index, member)) = recording.find(owner, name) else { return Ok(()) };
        if member.kind != MemberStorage::Link {
            return Err(mismatch(name));
        }
        self.bytes.insert(index, pointed);
        Ok(())
    }
}

fn mismatch(name: &str) -> FormatError {
    FormatError::unsupported(format!("member {name} is stored in another way than expected"))
}

fn too_large(name: &str, value: i64) -> FormatError {
    FormatError::unsupported(format!("member {name} has no room for {value}"))
}
