//! Interned strings of a journal: names of files, stores, trees and branches, and outcomes of requests. Records refer
//! to strings by ID.

use std::collections::HashMap;
use std::sync::Mutex;

use super::lock::locked;
use super::records;

/// Maximum number of strings that a thread caches. A full cache is cleared.
const KNOWN_MAX: usize = 16_384;

/// Kind of an interned string. `What` is the name of a call or an activity.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    File,
    Store,
    What,
    Outcome,
    Wagon,
    Tree,
}

const KINDS_COUNT: usize = Kind::Tree as usize + 1;

/// Strings of a journal, and the records of new strings that have not been written yet.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Box<str>, u32>,
    waiting: Vec<u8>,
}

impl Names {
    /// Returns the ID of a string. A new string gets the next ID and a record.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.into(), number);
        records::put_name(&mut self.waiting, number, text);
        number
    }

    /// Moves the unwritten records to `bytes`.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) {
        records::put_block(bytes, records::NAMES, 0, &mut self.waiting);
    }
}

/// Per-thread cache of string IDs: the last string of each kind, and earlier strings.
#[derive(Default)]
pub(super) struct Known {
    last: [Option<(Box<str>, u32)>; KINDS_COUNT],
    numbers: HashMap<Box<str>, u32>,
}

impl Known {
    pub(super) fn number(&mut self, kind: Kind, text: &str, names: &Mutex<Names>) -> u32 {
        match &self.last[kind as usize] {
            Some((last, number)) if **last == *text => *number,
            _ => {
                let number = self.looked_up(text, names);
                self.last[kind as usize] = Some((text.into(), number));
                number
            }
        }
    }

    fn looked_up(&mut self, text: &str, names: &Mutex<Names>) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        if self.numbers.len() >= KNOWN_MAX {
            self.numbers.clear();
        }
        let number = locked(names).number(text);
        self.numbers.insert(text.into(), number);
        number
    }
}
