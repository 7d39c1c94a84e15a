//! Texts of a journal, each with a number: names of files, stores, trees and branches, and outcomes of requests.

use std::collections::HashMap;
use std::sync::Mutex;

use super::lock::locked;
use super::records;

/// Numbers of texts that a thread keeps. When it has more, it drops all of them and looks them up again.
const KNOWN_MAX: usize = 16_384;

/// The kinds of texts.
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

/// The texts of a journal, and the records of those that are not written yet.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Box<str>, u32>,
    waiting: Vec<u8>,
}

impl Names {
    /// The number of a text. A new one gets the next number and a record.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.into(), number);
        records::put_name(&mut self.waiting, number, text);
        number
    }

    /// Appends those that are not written yet to `bytes`.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) {
        records::put_block(bytes, records::NAMES, 0, &mut self.waiting);
    }
}

/// The numbers that a thread has looked up: of the last text of each kind, and of earlier ones.
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
