//! Keeps freed mappings for reuse, because the kernel clears every page of a new mapping. Many decoders fill a page in
//! less time than the kernel takes to clear it.

use std::ptr;
use std::sync::Mutex;

use crate::limits::{KEPT_MAPPINGS_BYTES_MAX, KEPT_MAPPINGS_COUNT_MAX, KEPT_MAPPING_BYTES_MAX};

/// An unused mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapping {
    pub(crate) block: *mut u8,
    pub(crate) bytes: usize,
}

const NONE: Mapping = Mapping { block: ptr::null_mut(), bytes: 0 };

/// All unused mappings of the process, oldest first.
///
/// No method waits for the lock: if another thread holds it, no mapping is kept or reused. If a process is
/// forked while a thread holds the lock, the new process therefore keeps working, but never reuses mappings.
#[derive(Debug)]
pub(crate) struct KeptMappings(Mutex<Ring>);

#[derive(Debug)]
struct Ring {
    mappings: [Mapping; KEPT_MAPPINGS_COUNT_MAX],
    count: usize,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and taking it out of the ring gives exclusive access.
unsafe impl Send for Ring {}

impl KeptMappings {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Ring { mappings: [NONE; KEPT_MAPPINGS_COUNT_MAX], count: 0, bytes: 0 }))
    }

    /// Takes the most recently freed mapping of exactly this size.
    pub(crate) fn take(&self, bytes: usize) -> Option<*mut u8> {
        let mut ring = self.0.try_lock().ok()?;
        let at = ring.kept().iter().rposition(|mapping| mapping.bytes == bytes)?;
        Some(ring.remove(at).block)
    }

    /// Keeps a mapping for reuse. Calls `unmap` for each mapping that exceeds the limits, which may be the new one.
    pub(crate) fn give(&self, mapping: Mapping, mut unmap: impl FnMut(Mapping)) {
        if mapping.bytes > KEPT_MAPPING_BYTES_MAX {
            return unmap(mapping);
        }
        let Ok(mut ring) = self.0.try_lock() else { return unmap(mapping) };
        while ring.count == KEPT_MAPPINGS_COUNT_MAX || ring.bytes + mapping.bytes > KEPT_MAPPINGS_BYTES_MAX {
            unmap(ring.remove(0));
        }
        ring.add(mapping);
    }

    /// Unmaps all kept mappings; called when the process runs out of memory.
    pub(crate) fn clear(&self, mut unmap: impl FnMut(Mapping)) {
        let Ok(mut ring) = self.0.try_lock() else { return };
        while ring.count > 0 {
            unmap(ring.remove(0));
        }
    }
}

impl Ring {
    fn kept(&self) -> &[Mapping] {
        self.mappings.get(..self.count).unwrap_or_default()
    }

    /// Adds a mapping; the ring must have a free slot.
    fn add(&mut self, mapping: Mapping) {
        if let Some(free) = self.mappings.get_mut(self.count) {
            *free = mapping;
            self.count += 1;
            self.bytes += mapping.bytes;
        }
    }

    /// Removes and returns the mapping at this index.
    fn remove(&mut self, at: usize) -> Mapping {
        let mapping = self.mappings.get(at).copied().unwrap_or(NONE);
        self.mappings.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.bytes -= mapping.bytes;
        mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(number: usize, bytes: usize) -> Mapping {
        Mapping { block: ptr::without_provenance_mut(number), bytes }
    }

    fn given(kept: &KeptMappings, mapping: Mapping) -> Vec<usize> {
        let mut unmapped = Vec::new();
        kept.give(mapping, |one| unmapped.push(one.block.addr()));
        unmapped
    }

    #[test]
    fn a_mapping_of_the_same_size_is_found_the_latest_first() {
        let kept = KeptMappings::new();
        for (number, bytes) in [(1, 10), (2, 20), (3, 10)] {
            assert!(given(&kept, mapping(number, bytes)).is_empty());
        }
        let taken = |bytes| kept.take(bytes).map(<*mut u8>::addr);
        assert_eq!([taken(10), taken(15), taken(10), taken(10), taken(20)], [Some(3), None, Some(1), None, Some(2)]);
    }

    #[test]
    fn the_oldest_go_where_bytes_or_places_are_used_up() {
        let kept = KeptMappings::new();
        let small = KEPT_MAPPINGS_BYTES_MAX / 8;
        assert!((1..=8).all(|number| given(&kept, mapping(number, small)).is_empty()));
        assert_eq!(given(&kept, mapping(10, 2 * small)), [1, 2]);
        assert_eq!(given(&kept, mapping(11, KEPT_MAPPING_BYTES_MAX + 1)), [11]);
        kept.clear(|_| ());
        assert!((1..=KEPT_MAPPINGS_COUNT_MAX).all(|number| given(&kept, mapping(number, 1)).is_empty()));
        assert_eq!(given(&kept, mapping(9, 1)), [1]);
    }

    #[test]
    fn nothing_waits_for_a_lock() {
        let kept = KeptMappings::new();
        let held = kept.0.lock();
        assert_eq!(given(&kept, mapping(1, 10)), [1]);
        assert!(kept.take(10).is_none());
        drop(held);
        assert!(kept.take(10).is_none());
    }
}
