//! Texts of a journal, each with a number: the names of files, stores, trees and branches, and what became of requests.

use std::collections::HashMap;
use std::sync::Mutex;

use super::{locked, records, KINDS};

/// Texts that a thread knows the numbers of at most; one that meets more forgets them and asks anew.
const KNOWN_MAX: usize = 16_384;

/// The texts of a journal, and the records of those that are not written yet.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<Box<str>, u32>,
    waiting: Vec<u8>,
}

impl Names {
    /// The number of a text, which is told if it is new.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.into(), number);
        records::put_name(&mut self.waiting, number, text);
        number
    }

    /// Puts those that are not written yet behind the bytes.
    pub(super) fn take(&mut self, bytes: &mut Vec<u8>) {
        records::put_block(bytes, records::NAMES, 0, &mut self.waiting);
    }
}

/// The numbers that a thread knows: those of texts that it told last of each kind, and of others that it told before.
#[derive(Default)]
pub(super) struct Known {
    last: [Option<(Box<str>, u32)>; KINDS],
    numbers: HashMap<Box<str>, u32>,
}

impl Known {
    pub(super) fn number(&mut self, kind: usize, text: &str, names: &Mutex<Names>) -> u32 {
        match &self.last[kind] {
            Some((last, number)) if **last == *text => *number,
            _ => {
                let number = self.looked_up(text, names);
                self.last[kind] = Some((text.into(), number));
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
