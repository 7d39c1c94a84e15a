//! Branch paths of a tree. All files of a dataset have trees with the same branches, so the IDs of their paths in the
//! journal are looked up once for all files. Looking them up for each basket took half of the logging time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::lock::locked;
use super::writer::{current, Journal};

/// Maximum number of cached lists. Files that are read concurrently have fewer different trees than this.
const LISTS_MAX: usize = 16;
const NO_NUMBER: u32 = u32::MAX;

/// Cached lists of the current journal, most recently used first.
static KNOWN: Mutex<VecDeque<Branches>> = Mutex::new(VecDeque::new());

/// The branches of a tree; shared by trees with the same branches.
#[derive(Debug, Clone)]
pub struct Branches(Arc<List>);

#[derive(Debug)]
struct List {
    /// ID of the journal to which `numbers` belong.
    journal: u64,
    /// All paths concatenated; `ends` contains the end of each path.
    paths: String,
    ends: Vec<usize>,
    /// ID of each path; `NO_NUMBER` until the path is first logged.
    numbers: Vec<AtomicU32>,
}

impl Branches {
    /// Returns the branches with these paths, in this order.
    pub fn of<'a>(paths: impl ExactSizeIterator<Item = &'a str> + Clone) -> Self {
        let Some(journal) = current() else { return Self(Arc::new(List::of(0, paths))) };
        let mut known = locked(&KNOWN);
        known.retain(|one| one.0.journal == journal.number);
        let place = known.iter().position(|one| one.0.has(paths.clone()));
        let found = place.and_then(|place| known.remove(place));
        let found = found.unwrap_or_else(|| Self(Arc::new(List::of(journal.number, paths))));
        known.truncate(LISTS_MAX - 1);
        known.push_front(found.clone());
        found
    }

    /// Returns the ID of a branch's path in a journal.
    pub(super) fn number(&self, index: usize, journal: &Journal) -> u32 {
        let path = || self.0.path(index).unwrap_or_default();
        match self.0.numbers.get(index) {
            Some(place) if self.0.journal == journal.number => match place.load(Ordering::Acquire) {
                NO_NUMBER => {
                    let number = locked(&journal.names).number(path());
                    place.store(number, Ordering::Release);
                    number
                }
                number => number,
            },
            // The tree was opened during another journal, or without one.
            _ => locked(&journal.names).number(path()),
        }
    }
}

impl List {
    fn of<'a>(journal: u64, all: impl ExactSizeIterator<Item = &'a str>) -> Self {
        let numbers = (0..all.len()).map(|_| AtomicU32::new(NO_NUMBER)).collect();
        let mut paths = String::new();
        let ends = all.map(|path| {
            paths.push_str(path);
            paths.len()
        });
        Self { journal, ends: ends.collect(), numbers, paths }
    }

    fn path(&self, index: usize) -> Option<&str> {
        let begin = index.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied())?;
        self.paths.get(begin..*self.ends.get(index)?)
    }

    fn has<'a>(&self, paths: impl ExactSizeIterator<Item = &'a str>) -> bool {
        self.ends.len() == paths.len() && paths.enumerate().all(|(index, path)| self.path(index) == Some(path))
    }
}
