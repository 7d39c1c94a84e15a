//! What is made of objects of one path that are not trees: a sum of those that add up, and of others each version once,
//! as cycles of one name.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use branchline_format::streamer::ClassInfos;
use branchline_format::write::{Addend, Sum};

use crate::error::Result;
use crate::write::merge::input::Item;
use crate::write::new_file::{NewFile, ObjectName, SlotId};
use crate::write::products::tree::input::refused;

/// Objects of one path.
#[derive(Default)]
pub(crate) struct Objects {
    sums: Vec<Summing>,
    /// What tells those apart that are copied.
    copies: HashSet<u128>,
    /// Why some of them do not add up.
    reason: Option<String>,
}

/// Objects that become one.
struct Summing {
    slot: SlotId,
    about: ObjectName,
    sum: Box<Sum>,
}

impl Objects {
    /// The cycle that the next version has, when so many were written of the same file.
    pub(crate) fn next_cycle(&self, written: usize, item: &Item, file: &str) -> Result<i16> {
        i16::try_from(self.versions_count() + written + 1)
            .map_err(|_| refused(file, format!("{} has more cycles than ROOT has room for", item.path)))
    }

    /// How many there will be.
    pub(crate) fn versions_count(&self) -> usize {
        self.sums.len() + self.copies.len()
    }

    /// Whether one that is copied is there already.
    pub(crate) fn has_copy(&self, digest: u128) -> bool {
        self.copies.contains(&digest)
    }

    /// Takes over one that was copied; of an object that would add up otherwise it is said why.
    pub(crate) fn add_copy(&mut self, digest: u128, reason: Option<String>) {
        self.copies.insert(digest);
        self.reason = self.reason.take().or(reason);
    }

    /// Adds an object to those that it goes with; gives it back if there are none.
    pub(crate) fn add(&mut self, addend: Box<Addend>) -> Option<Box<Addend>> {
        for Summing { sum, .. } in &mut self.sums {
            match sum.plan(&addend) {
                Ok(plan) => {
                    sum.add(*addend, &plan);
                    return None;
                }
                Err(error) => self.reason = self.reason.take().or(Some(error.message)),
            }
        }
        Some(addend)
    }

    /// Begins a sum in this place, which may need room there.
    pub(crate) fn begin(
        &mut self,
        (item, file): (&Item, &str),
        (plain, addend): (Vec<u8>, Box<Addend>),
        infos: &Arc<ClassInfos>,
        (new_file, directory): (&mut NewFile, usize),
    ) -> Result<()> {
        let about = ObjectName { cycle: self.next_cycle(0, item, file)?, ..item.about() };
        let sum = Box::new(Sum::new(plain, item.key.key_size, &item.key.class_name, infos, *addend));
        let slot = new_file.reserve(directory);
        if let Some(size) = sum.fixed_bytes() {
            new_file.reserve_room(slot, &about, size)?;
        }
        self.sums.push(Summing { slot, about, sum });
        Ok(())
    }

    /// Writes the sums. Answers with what is to be known of them.
    pub(crate) fn write(&mut self, (path, class_name): (&str, &str), file: &mut NewFile) -> Result<Option<String>> {
        for Summing { slot, about, sum } in &self.sums {
            let told = |error: branchline_format::error::FormatError| {
                refused(path, error.in_object(&about.class_name).to_string())
            };
            file.write_object(*slot, about, |key_size| sum.record(key_size).map_err(told))?;
        }
        let count = self.versions_count();
        let notes: BTreeSet<&str> = self.sums.iter().flat_map(|one| one.sum.notes()).collect();
        if count == 1 && !notes.is_empty() {
            let notes: Vec<&str> = notes.into_iter().collect();
            return Ok(Some(format!("{path} ({class_name}): {}", notes.join("; "))));
        }
        Ok((count > 1).then(|| match &self.reason {
            Some(reason) => format!("{path} ({class_name}) does not add up: {reason}; its {count} versions are cycles"),
            None => format!("{path} ({class_name}) differs: its {count} versions are cycles"),
        }))
    }
}
