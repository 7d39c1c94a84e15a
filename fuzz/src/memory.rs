//! The memory that a decoder may take, as a multiple of its input.

use crate::allocations::peak_of;

/// What any input may take: contexts of codecs, first sizes of collections, messages.
const BASE_BYTES: usize = 1 << 20;

/// Runs a decoder, which may take `factor` times `input_bytes` beyond a fixed base.
pub fn bounded<T>(input_bytes: usize, factor: usize, work: impl FnOnce() -> T) -> T {
    let (answer, peak_bytes) = peak_of(work);
    let most_bytes = BASE_BYTES + factor * input_bytes;
    assert!(peak_bytes <= most_bytes, "{peak_bytes} bytes taken for {input_bytes} bytes of input, not {most_bytes}");
    answer
}
