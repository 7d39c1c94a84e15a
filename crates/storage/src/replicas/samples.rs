//! Checksums of samples of the bytes that were read, for comparison with other replicas.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::limits::{SAMPLES_MAX, SAMPLE_BYTES_MAX};
use crate::local::mounted::read_within;
use crate::{ByteRange, RangeRead, Result, Store};

#[derive(Debug, Default)]
struct SampleList {
    samples: Vec<(ByteRange, u32)>,
    seen_count: usize,
}

/// The first and the latest samples of a file, as ranges with their checksums.
#[derive(Debug, Default)]
pub(super) struct Samples(Mutex<SampleList>);

impl Samples {
    /// Adds the first bytes of each read as a sample. If there are too many samples, new ones replace older ones.
    pub(super) fn add(&self, reads: &[RangeRead]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for read in reads.iter().filter(|read| read.range.length > 0) {
            let length = read.range.length.min(SAMPLE_BYTES_MAX);
            let Some(bytes) = read.bytes().get(..length as usize) else { continue };
            let range = ByteRange::new(read.range.offset, length);
            if kept.samples.iter().any(|(known, _)| *known == range) {
                continue;
            }
            let sample = (range, crc32c::crc32c(bytes));
            kept.seen_count += 1;
            if kept.samples.len() < SAMPLES_MAX {
                kept.samples.push(sample);
            } else {
                // The first half, which holds the earliest samples, is kept; new samples replace those of the second
                // half in turn.
                let index = SAMPLES_MAX / 2 + kept.seen_count % (SAMPLES_MAX / 2);
                kept.samples[index] = sample;
            }
        }
    }

    /// Returns an offset at which the bytes of `store` differ from the samples, or None if all agree. Fails if reading
    /// takes longer than `limit`.
    pub(super) fn differs(&self, store: &Arc<dyn Store>, limit: Duration) -> io::Result<Result<Option<u64>>> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner).samples.clone();
        if samples.is_empty() {
            return Ok(Ok(None));
        }
        let mut reads: Vec<RangeRead> = samples.iter().map(|(range, _)| RangeRead::new(*range)).collect();
        let read = read_within(limit, store, &mut reads)?;
        let other = || reads.iter().zip(&samples).find(|(read, (_, sum))| crc32c::crc32c(read.bytes()) != *sum);
        Ok(read.map(|_| other().map(|(read, _)| read.range.offset)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Memory;

    #[test]
    fn a_store_with_one_other_byte_in_what_was_read_is_found() {
        let bytes: Vec<u8> = (0..100_000).map(|index| (index % 251) as u8).collect();
        let store: Arc<dyn Store> = Arc::new(Memory::new("f", bytes.clone()));
        let limit = Duration::from_secs(20);
        let samples = Samples::default();
        for offset in (0..99_000).step_by(1000) {
            let mut read = [RangeRead::new(ByteRange::new(offset, 900))];
            store.read_ranges(&mut read).unwrap();
            samples.add(&read);
        }
        assert_eq!(samples.differs(&store, limit).unwrap().unwrap(), None);
        for (changed, found) in [(1, Some(0)), (3899, Some(3000)), (98_000, Some(98_000)), (950, None)] {
            let mut other = bytes.clone();
            other[changed] ^= 1;
            let other: Arc<dyn Store> = Arc::new(Memory::new("g", other));
            assert_eq!(samples.differs(&other, limit).unwrap().unwrap(), found, "{changed}");
        }
    }
}
