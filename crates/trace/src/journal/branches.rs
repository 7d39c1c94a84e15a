//! The paths of the branches of a tree. Files of a dataset have trees with the same ones, so their numbers in the
//! journal are looked up once for all of them: one look-up for each basket was half of the cost of logging it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use super::lock::locked;
use super::writer::{current, Journal};

/// Lists that are remembered: more than there are different trees among files that are read at a time.
const LISTS_MAX: usize = 16;
const NO_NUMBER: u32 = u32::MAX;

/// The lists of the journal that is written, those of the last tree first.
static KNOWN: Mutex<VecDeque<Branches>> = Mutex::new(VecDeque::new());

/// The branches of a tree; others with the same ones share them.
#[derive(Debug, Clone)]
pub struct Branches(Arc<List>);

#[derive(Debug)]
struct List {
    /// The number of the journal that the numbers are of.
    journal: u64,
    /// One path behind the other, and where each ends.
    paths: String,
    ends: Vec<usize>,
    /// The numbers of those that were logged.
    numbers: Vec<AtomicU32>,
}

impl Branches {
    /// The branches with these paths, in this order.
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

    /// The number of the path of a branch in a journal.
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
            // The tree was opened for another journal, or for none.
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
