//! A wrapper around a store that reads through a buffer of fixed size, as RFIO clients do. A miss refills the buffer,
//! starting at the missed offset.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{Around, ByteRange, RangeRead, ReadEffort, Result, StorageError, Store};

/// A wrapper around a store that reads through a buffer.
pub struct ReadAhead {
    inner: Arc<dyn Store>,
    buffer_bytes: u64,
    buffer: Mutex<RangeRead>,
}

impl ReadAhead {
    /// Wraps `inner` with a buffer of `buffer_bytes` bytes.
    pub fn new(inner: Arc<dyn Store>, buffer_bytes: u64) -> Self {
        let buffer = Mutex::new(RangeRead::new(ByteRange::new(0, 0)));
        Self { inner, buffer_bytes: buffer_bytes.max(1), buffer }
    }

    /// Fills one read from the buffer, and refills the buffer whenever it does not contain the next byte.
    fn fill(&self, read: &mut RangeRead, size: u64, buffer: &mut RangeRead) -> Result<ReadEffort> {
        let range = read.range;
        let ByteRange { offset, length } = range;
        let room = read.room_for(length).ok_or_else(|| StorageError::no_memory(self.path(), range))?;
        let mut effort = ReadEffort::default();
        let mut filled = 0;
        while filled < length {
            let at = offset + filled;
            let (start, held) = (buffer.range.offset, buffer.bytes());
            let behind = at.checked_sub(start).filter(|behind| *behind < held.len() as u64);
            let Some(behind) = behind else {
                *buffer = RangeRead::new(ByteRange::new(at, self.buffer_bytes.min(size - at)));
                let filling = self.inner.read_ranges(std::slice::from_mut(buffer));
                if filling.is_err() {
                    *buffer = RangeRead::new(ByteRange::new(0, 0));
                }
                effort = effort + filling?;
                continue;
            };
            let from = &held[behind as usize..];
            let count = from.len().min((length - filled) as usize);
            room[filled as usize..filled as usize + count].copy_from_slice(&from[..count]);
            filled += count as u64;
        }
        Ok(effort)
    }
}

impl Around for ReadAhead {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn read_again(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        self.inner.read_again(reads)
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let size = self.inner.size_bytes()?;
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut effort = ReadEffort::default();
        for read in reads {
            if read.range.end().is_none_or(|end| end > size) {
                return Err(StorageError::truncated(self.path(), read.range, size));
            }
            effort = effort + self.fill(read, size, &mut buffer)?;
        }
        Ok(effort)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Memory;

    fn content() -> Vec<u8> {
        (0..10_000u32).map(|number| (number * 31 % 251) as u8).collect()
    }

    fn store(buffer_bytes: u64) -> ReadAhead {
        ReadAhead::new(Arc::new(Memory::new("m", content())), buffer_bytes)
    }

    fn read(store: &ReadAhead, ranges: &[(u64, u64)]) -> ReadEffort {
        let of = |(offset, length): &(u64, u64)| RangeRead::new(ByteRange::new(*offset, *length));
        let mut reads: Vec<RangeRead> = ranges.iter().map(of).collect();
        let effort = Store::read_ranges(store, &mut reads).unwrap();
        for read in &reads {
            let start = read.range.offset as usize;
            assert_eq!(read.bytes(), &content()[start..start + read.range.length as usize]);
        }
        effort
    }

    #[test]
    fn reads_inside_the_buffer_cost_nothing_and_each_miss_a_buffer() {
        let store = store(1000);
        let cost = |ranges: &[(u64, u64)]| {
            let effort = read(&store, ranges);
            (effort.calls_count, effort.read_bytes)
        };
        assert_eq!(cost(&[(0, 10)]), (1, 1000));
        assert_eq!(cost(&[(10, 990), (500, 1), (0, 0)]), (0, 0));
        // A read that starts within the buffer takes the rest of the buffer, and then refills it.
        assert_eq!(cost(&[(900, 200)]), (1, 1000));
        assert_eq!(cost(&[(1999, 1)]), (0, 0));
        // One read before the buffer and one far after it; the last refill ends at the end of the file.
        assert_eq!(cost(&[(0, 1), (9_500, 10)]), (2, 1500));
        assert_eq!(cost(&[(0, 10_000)]), (10, 10_000));
    }

    #[test]
    fn a_buffer_as_large_as_the_file_is_filled_once() {
        let store = store(1 << 20);
        assert_eq!(read(&store, &[(0, 1), (9_999, 1), (77, 5_000)]).calls_count, 1);
    }

    #[test]
    fn nothing_is_read_behind_the_end() {
        let store = store(4096);
        for range in [(9_999, 2), (10_001, 0), (u64::MAX, 1), (5, u64::MAX)] {
            let mut reads = [RangeRead::new(ByteRange::new(range.0, range.1))];
            assert!(Store::read_ranges(&store, &mut reads).is_err(), "{range:?}");
        }
        assert_eq!(read(&store, &[(10_000, 0)]).calls_count, 0);
    }
}
