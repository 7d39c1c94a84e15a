//! The contents of a file that is being written.

use std::collections::{HashMap, HashSet};

use crate::write::new_file::SlotId;

/// An object or a directory of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The path of the object in the file, with `/` as separator.
    pub path: String,
    /// The cycle.
    pub cycle: i16,
    /// The class name.
    pub class_name: String,
    /// The title.
    pub title: String,
}

/// All objects and directories in the order in which they were written, with the slots of their keys.
#[derive(Default)]
pub(super) struct Listing {
    all: Vec<(Listed, Option<SlotId>)>,
    /// The cycles of each path. Because of this index, the time to find the next cycle does not depend on the size of
    /// the file.
    by_path: HashMap<String, Cycles>,
}

/// The cycles that exist at a path.
#[derive(Default)]
struct Cycles {
    last: i16,
    all: HashSet<i16>,
}

impl Cycles {
    fn add(&mut self, cycle: i16) {
        self.last = cycle;
        self.all.insert(cycle);
    }
}

impl Listing {
    pub(super) fn push(&mut self, listed: Listed, slot: Option<SlotId>) {
        self.by_path.entry(listed.path.clone()).or_default().add(listed.cycle);
        self.all.push((listed, slot));
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &(Listed, Option<SlotId>)> {
        self.all.iter()
    }

    pub(super) fn contains(&self, path: &str) -> bool {
        self.by_path.contains_key(path)
    }

    /// Returns the cycle for the next object with this path. Returns None if all cycles are taken.
    pub(super) fn next_cycle(&self, path: &str) -> Option<i16> {
        let Some(cycles) = self.by_path.get(path) else { return Some(1) };
        // As in ROOT, 32767 is followed by -32768.
        let next = cycles.last.wrapping_add(1);
        (!cycles.all.contains(&next)).then_some(next)
    }

    /// Removes the chosen cycles of a path, and returns the slots of their keys. Returns None if no cycle was chosen.
    pub(super) fn remove(&mut self, path: &str, is_chosen: impl Fn(i16) -> bool) -> Option<Vec<SlotId>> {
        let cycles = self.by_path.get_mut(path).filter(|cycles| cycles.all.iter().any(|cycle| is_chosen(*cycle)))?;
        *cycles = Cycles::default();
        let mut slots = Vec::new();
        self.all.retain(|(listed, slot)| {
            if listed.path != path {
                return true;
            }
            let is_removed = is_chosen(listed.cycle);
            match is_removed {
                true => slots.extend(*slot),
                false => cycles.add(listed.cycle),
            }
            !is_removed
        });
        if cycles.all.is_empty() {
            self.by_path.remove(path);
        }
        Some(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(listing: &mut Listing, path: &str, cycle: i16) {
        let (path, class_name, title) = (path.to_string(), "TH1D".to_string(), String::new());
        listing.push(Listed { path, cycle, class_name, title }, None);
    }

    #[test]
    fn cycles_follow_the_last_one_that_is_left() {
        let mut listing = Listing::default();
        assert_eq!(listing.next_cycle("h"), Some(1));
        for cycle in [1, 2, 7] {
            push(&mut listing, "h", cycle);
            push(&mut listing, "g", cycle);
        }
        assert_eq!(listing.next_cycle("h"), Some(8));
        assert!(listing.remove("h", |cycle| cycle == 3).is_none());
        assert!(listing.remove("h", |cycle| cycle == 7).is_some());
        assert_eq!((listing.next_cycle("h"), listing.next_cycle("g")), (Some(3), Some(8)));
        assert!(listing.remove("h", |_| true).is_some());
        assert_eq!((listing.next_cycle("h"), listing.contains("h"), listing.iter().count()), (Some(1), false, 3));
    }

    #[test]
    fn each_cycle_of_a_path_is_given_once() {
        let mut listing = Listing::default();
        for expected in (1..=i16::MAX).chain(i16::MIN..=0) {
            assert_eq!(listing.next_cycle("h"), Some(expected));
            push(&mut listing, "h", expected);
        }
        assert_eq!(listing.next_cycle("h"), None);
    }
}
