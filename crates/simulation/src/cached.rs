//! Least-recently-used cache of blocks.

use std::collections::{BTreeMap, HashMap};

/// Identifies the bytes of a block: the plan, the block's index in the plan, and `data` of the job.
pub(crate) type Content = (usize, usize, u64);

/// The blocks in a cache.
#[derive(Debug, Default)]
pub(crate) struct Cached {
    size_bytes: f64,
    held_bytes: f64,
    uses: u64,
    blocks: HashMap<Content, (f64, u64)>,
    by_use: BTreeMap<u64, Content>,
}

impl Cached {
    pub(crate) fn new(size_bytes: f64) -> Self {
        Self { size_bytes, ..Self::default() }
    }

    /// Returns whether a block is cached, and marks it as used.
    pub(crate) fn has(&mut self, content: Content) -> bool {
        let Some((_, last)) = self.blocks.get_mut(&content) else { return false };
        self.by_use.remove(last);
        self.uses += 1;
        *last = self.uses;
        self.by_use.insert(self.uses, content);
        true
    }

    /// Adds a block that was read. Evicts the least recently used blocks if the cache is full.
    pub(crate) fn take(&mut self, content: Content, bytes: f64) {
        if bytes > self.size_bytes || self.has(content) {
            return;
        }
        self.uses += 1;
        self.held_bytes += bytes;
        self.blocks.insert(content, (bytes, self.uses));
        self.by_use.insert(self.uses, content);
        while self.held_bytes > self.size_bytes {
            let Some((_, oldest)) = self.by_use.pop_first() else { return };
            if let Some((bytes, _)) = self.blocks.remove(&oldest) {
                self.held_bytes -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut cached = Cached::new(3.0);
        for block in 0..3 {
            cached.take((0, block, 0), 1.0);
        }
        assert!(cached.has((0, 0, 0)));
        cached.take((0, 3, 0), 1.0);
        assert_eq!([0, 1, 2, 3].map(|block| cached.has((0, block, 0))), [true, false, true, true]);
        cached.take((0, 9, 0), 4.0);
        assert!(!cached.has((0, 9, 0)) && cached.has((0, 3, 0)));
    }
}
