//! Replacement of members in a parsed object.

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

/// Changes to apply when a parsed object is encoded again.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    pub(crate) bytes: HashMap<usize, Vec<u8>>,
    pub(crate) labels: HashMap<usize, Vec<Label>>,
    pub(crate) chunks: HashMap<usize, Sparse>,
    pub(crate) dropped: HashSet<u64>,
    pub(crate) name: Option<NewName>,
}

/// The encoded new name of an object, and the position of the old name.
#[derive(Debug, Clone)]
pub(crate) struct NewName {
    pub(crate) at: Range<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl Changes {
    /// Create an empty set of changes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Replace the name and title of the object, if it is a TNamed with the name `old`. Returns whether it was
    /// replaced. `bases` is the object's class and its chain of first base classes. If no new title is given, the old
    /// title is kept.
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

    /// Replace the numbers of a histogram's member `name`; `cells` stands for the member with the cell contents. An
    /// array must keep its length; an empty array may also get one number per cell.
    pub fn histogram(&mut self, recording: &Recording<'_>, name: &str, values: &[f64]) -> Result<()> {
        const ENTRIES_WAIT: &str = "its entries are still in its buffer";
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
        let (index, member) = found.ok_or_else(|| refused("its class has no such member"))?;
        let numbers_of = |member: &RecordedMember| Numbers::of(recording.stored(member), &member.kind);
        let old = numbers_of(member)?.ok_or_else(|| refused("the member is not numeric"))?;
        let cells_count = match cells() {
            Some((_, cells)) => numbers_of(cells)?.map_or(0, |numbers| numbers.len()),
            None => 0,
        };
        if values.len() != old.len() && !(old.len() == 0 && values.len() == cells_count) {
            return Err(refused(&format!("got {} numbers, expected {}", values.len(), old.len())));
        }
        let new = old.replaced(values).ok_or_else(|| refused("a number is out of range for the type of its bins"))?;
        self.stored(index, new.stored(&member.kind));
        Ok(())
    }

    /// Replace a number member. Does nothing if the class version does not have the member.
    pub fn number(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str, value: i64) -> Result<()> {
        let Some((index, member)) = recording.find(owner, name) else { return Ok(()) };
        let MemberStorage::Number(number) = member.kind else { return Err(mismatch(name)) };
        let mut bytes = Vec::new();
        number.write(value, &mut bytes).ok_or_else(|| too_large(name, value))?;
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Replace a variable-size array member. The caller must replace the array's counter separately.
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

    /// Remove objects from arrays of pointers. An object is also removed if all objects that refer to
    /// it are removed.
    pub fn without(&mut self, ids: &HashSet<u64>) {
        self.dropped.extend(ids);
    }

    /// Replace the encoded bytes of a member.
    pub(crate) fn stored(&mut self, index: usize, bytes: Vec<u8>) {
        self.bytes.insert(index, bytes);
    }

    /// Replace the bin labels of an axis.
    pub(crate) fn labels(&mut self, index: usize, labels: Vec<Label>) {
        self.labels.insert(index, labels);
    }

    /// Replace the bins of a THnSparse.
    pub(crate) fn chunks(&mut self, index: usize, bins: Sparse) {
        self.chunks.insert(index, bins);
    }

    /// Clear the I/O features of a branch (TBranch::fIOFeatures). With a feature set, ROOT expects all baskets to omit
    /// entry offsets.
    pub fn no_features(&mut self, recording: &Recording<'_>, owner: usize) -> Result<()> {
        let Some((index, member)) = recording.find(owner, "fIOFeatures") else { return Ok(()) };
        let mut bytes = recording.alone(member)?;
        if let Some(features) = bytes.last_mut() {
            *features = 0;
        }
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Remove the embedded baskets of a branch (TBranch::fBaskets). For branches up to version 9, ROOT expects an array
    /// with one null pointer per basket.
    pub fn no_baskets(&mut self, recording: &Recording<'_>, owner: usize, room: usize) -> Result<()> {
        const NAME: &str = "fBaskets";
        /// Start of a TObjArray: version 3, a TObject on the heap, an empty name.
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
        bytes.resize(bytes.len() + 4 + 4 * count, 0); // lower bound and null pointers
        self.bytes.insert(index, bytes);
        Ok(())
    }

    /// Set a pointer member to null.
    pub fn no_link(&mut self, recording: &Recording<'_>, owner: usize, name: &'static str) -> Result<()> {
        self.link(recording, owner, name, vec![0; 4])
    }

    /// Replace a pointer member and the pointer's object, which must not contain references.
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
    FormatError::unsupported(format!("member {name} is not stored in the expected way"))
}

fn too_large(name: &str, value: i64) -> FormatError {
    FormatError::unsupported(format!("member {name} cannot hold {value}"))
}
