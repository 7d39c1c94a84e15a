//! Splits ranges into requests within the limits of a server. No I/O.

use super::session::RequestLimits;
use crate::limits::{READV_BYTES_MAX, READ_ALONE_BYTES, READ_BYTES_MAX};
use crate::ByteRange;

/// Consecutive bytes of the file that are part of a requested range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index of the requested range.
    pub(super) wanted: usize,
    /// Offset of the piece within the requested range.
    pub(super) at: usize,
    /// Offset of the piece in the file.
    pub(super) offset: u64,
    pub(super) length: u32,
}

/// The pieces of one request. A request with several pieces is a vector read.
pub(super) type Pieces = Vec<Piece>;

/// Splits ranges into requests. Large ranges are read individually, in pieces; small ranges are read together.
pub(super) fn requests(wanted: &[ByteRange], limits: &RequestLimits) -> Vec<Pieces> {
    let mut requests = Vec::new();
    let mut together: Pieces = Vec::new();
    let mut together_bytes = 0;
    let is_small = |length: u64| length < READ_ALONE_BYTES && length <= u64::from(limits.range_bytes_max);
    for (index, range) in wanted.iter().enumerate().filter(|(_, range)| range.length > 0) {
        if !is_small(range.length) {
            requests.extend(cut(index, *range).map(|piece| vec![piece]));
            continue;
        }
        if together.len() >= limits.ranges_max || together_bytes + range.length > READV_BYTES_MAX {
            requests.push(std::mem::take(&mut together));
            together_bytes = 0;
        }
        together_bytes += range.length;
        together.push(Piece { wanted: index, at: 0, offset: range.offset, length: range.length as u32 });
    }
    if !together.is_empty() {
        requests.push(together);
    }
    requests
}

/// Splits a large range into pieces that end at multiples of `READ_BYTES_MAX` in the file.
fn cut(wanted: usize, range: ByteRange) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let offset = range.offset.saturating_add(done);
        let to_border = READ_BYTES_MAX - offset % READ_BYTES_MAX;
        let length = to_border.min(range.length - done);
        let at = usize::try_from(done).ok()?;
        done += length;
        (length > 0).then_some(Piece { wanted, at, offset, length: length as u32 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: RequestLimits = RequestLimits { ranges_max: 3, range_bytes_max: 100_000, pages: true };

    #[test]
    fn small_ranges_share_requests_and_large_ones_are_cut() {
        let wanted: Vec<ByteRange> =
            [(5, 10), (100, 0), (READ_BYTES_MAX - 1, 2 * READ_BYTES_MAX), (7, 100_001), (1, 1), (2, 2), (3, 3)]
                .map(|(offset, length)| ByteRange::new(offset, length))
                .to_vec();
        let requests = requests(&wanted, &LIMITS);
        let shapes: Vec<(usize, usize)> = requests.iter().map(|pieces| (pieces[0].wanted, pieces.len())).collect();
        assert_eq!(shapes, [(2, 1), (2, 1), (2, 1), (3, 1), (0, 3), (6, 1)]);
        let lengths: Vec<u64> = requests[..3].iter().map(|pieces| u64::from(pieces[0].length)).collect();
        assert_eq!(lengths, [1, READ_BYTES_MAX, READ_BYTES_MAX - 1]);
    }

    #[test]
    fn every_byte_is_asked_for_once() {
        let mut next = 1_u64;
        let mut random = |below: u64| {
            next = next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (next >> 33) % below
        };
        for _ in 0..200 {
            let wanted: Vec<ByteRange> = (0..random(20))
                .map(|_| {
                    let most = [50, 200_000, 20_000_000][random(3) as usize];
                    ByteRange::new(random(1 << 40), random(most))
                })
                .collect();
            let limits = RequestLimits {
                ranges_max: 1 + random(5) as usize,
                range_bytes_max: 1 + random(300_000) as u32,
                pages: true,
            };
            let mut filled = vec![0; wanted.len()];
            for pieces in requests(&wanted, &limits) {
                assert!(!pieces.is_empty() && pieces.len() <= limits.ranges_max.max(1));
                for piece in pieces {
                    let range = wanted[piece.wanted];
                    assert_eq!(piece.offset, range.offset + piece.at as u64);
                    assert_eq!(piece.at as u64, filled[piece.wanted]);
                    filled[piece.wanted] += u64::from(piece.length);
                }
            }
            assert!(wanted.iter().zip(filled).all(|(range, filled)| range.length == filled));
        }
    }
}
