//! A selection of entries in a tree.

use std::ops::Range;

/// One bit per entry, starting with the highest bit of each byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    bits: Vec<u8>,
    entries_count: u64,
}

impl Selection {
    /// Creates a selection. Returns None if the number of bits does not match the number of entries.
    pub fn new(bits: Vec<u8>, entries_count: u64) -> Option<Self> {
        (bits.len() as u64 == entries_count.div_ceil(8)).then_some(Self { bits, entries_count })
    }

    /// Total number of entries, selected or not.
    pub fn entries_count(&self) -> u64 {
        self.entries_count
    }

    /// Returns a digest of the selected entries.
    pub(crate) fn digest(&self) -> u128 {
        xxhash_rust::xxh3::xxh3_128(&self.bits)
    }

    fn has(&self, entry: u64) -> bool {
        let byte = self.bits.get((entry / 8) as usize).copied().unwrap_or(0);
        entry < self.entries_count && byte & (0x80 >> (entry % 8)) != 0
    }

    /// Returns how many of these entries are selected.
    pub(crate) fn count(&self, entries: Range<u64>) -> u64 {
        let mut entry = entries.start;
        let mut count = 0;
        while entry < entries.end {
            if entry.is_multiple_of(8) && entries.end - entry >= 8 {
                count += u64::from(self.bits.get((entry / 8) as usize).map_or(0, |byte| byte.count_ones()));
                entry += 8;
            } else {
                count += u64::from(self.has(entry));
                entry += 1;
            }
        }
        count
    }

    /// Returns the first run of selected entries in this range. If there is none, returns an empty range at the end of
    /// the range.
    pub(crate) fn first_run(&self, entries: Range<u64>) -> Range<u64> {
        let next = |from: u64, is_kept: bool| {
            let mut entry = from;
            let unwanted = if is_kept { 0 } else { 0xff };
            while entry < entries.end {
                if entry.is_multiple_of(8) && self.bits.get((entry / 8) as usize) == Some(&unwanted) {
                    entry += 8;
                } else if self.has(entry) == is_kept {
                    return entry;
                } else {
                    entry += 1;
                }
            }
            entries.end
        };
        let start = next(entries.start, true);
        start..next(start, false)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_counts_are_those_of_the_bits() {
        let bits = vec![0b0110_0001, 0xff, 0, 0b1000_0000];
        let kept: Vec<u64> = (0..27).filter(|entry| bits[(entry / 8) as usize] & (0x80 >> (entry % 8)) != 0).collect();
        let selection = Selection::new(bits, 27).unwrap();
        for start in 0..27 {
            for end in start..=27 {
                let expected: Vec<u64> = kept.iter().copied().filter(|entry| (start..end).contains(entry)).collect();
                let mut found = Vec::new();
                let mut rest = start..end;
                while !rest.is_empty() {
                    let run = selection.first_run(rest.clone());
                    found.extend(run.clone());
                    rest.start = run.end;
                }
                assert_eq!(found, expected, "{start}..{end}");
                assert_eq!(selection.count(start..end), expected.len() as u64, "{start}..{end}");
            }
        }
        assert!(Selection::new(vec![0], 9).is_none());
    }
}
