//! Decoding of blocks: copies numbers at fixed offsets, column by column.

use crate::layout::steps::{Block, Check, Guard, Move};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

use super::slot::Slot;

impl Guard {
    #[inline]
    fn agrees(&self, block: &[u8]) -> bool {
        match &self.check {
            Check::Equal(bytes, size) => {
                let (found, wanted) = (&block[self.offset..self.offset + size], &bytes[..*size]);
                // Nearly all headers have one of two sizes, so the comparisons for these sizes are unrolled.
                match (found.first_chunk::<6>(), *size) {
                    (Some(found), 6) => Some(found) == wanted.first_chunk(),
                    (Some(_), 10) => found.first_chunk::<10>() == wanted.first_chunk(),
                    _ => found == wanted,
                }
            }
            Check::Clear(mask) => block[self.offset] & mask == 0,
        }
    }
}

impl Block {
    /// Whether all guards hold in each of `count` consecutive blocks.
    #[inline]
    pub(crate) fn agrees(&self, data: &[u8], count: usize) -> bool {
        self.guards.is_empty() || (0..count).all(|index| self.agrees_one(&data[index * self.size..]))
    }

    #[inline]
    fn agrees_one(&self, block: &[u8]) -> bool {
        self.guards.iter().all(|guard| guard.agrees(block))
    }

    /// Copy the numbers of `count` consecutive blocks into the slots. `data` must consist of exactly these blocks.
    #[inline]
    pub(crate) fn take(&self, data: &[u8], count: usize, slots: &mut [Slot]) {
        for one in &self.moves {
            one.take(data, count, self.size, &mut slots[one.slot].bytes);
        }
    }
}

impl Move {
    #[inline]
    fn take(&self, data: &[u8], blocks: usize, stride: usize, out: &mut Vec<u8>) {
        let size = self.scalar.stored_size() * self.count;
        if blocks == 1 || size == stride {
            append(self.scalar, &data[self.offset..self.offset + if size == stride { data.len() } else { size }], out);
            return;
        }
        match (self.scalar, size) {
            _ if self.count > 1 => self.take_each(data, blocks, stride, out),
            (Scalar::Plain(Number::Bool) | Scalar::Double32(_) | Scalar::Float16(_), _) => {
                self.take_each(data, blocks, stride, out)
            }
            (_, 1) => swap_strided::<1>(data, self.offset, blocks, stride, out),
            (_, 2) => swap_strided::<2>(data, self.offset, blocks, stride, out),
            (_, 4) => swap_strided::<4>(data, self.offset, blocks, stride, out),
            _ => swap_strided::<8>(data, self.offset, blocks, stride, out),
        }
    }

    fn take_each(&self, data: &[u8], blocks: usize, stride: usize, out: &mut Vec<u8>) {
        let size = self.scalar.stored_size() * self.count;
        for index in 0..blocks {
            let start = index * stride + self.offset;
            append(self.scalar, &data[start..start + size], out);
        }
    }
}

/// A number's bytes in native byte order. `from_be_bytes` compiles to one instruction; reversing an array does not.
trait Stored: Copy {
    fn native(self) -> Self;
}

macro_rules! stored {
    ($($number:ty),*) => { $(
        impl Stored for [u8; size_of::<$number>()] {
            #[inline]
            fn native(self) -> Self {
                <$number>::from_be_bytes(self).to_ne_bytes()
            }
        }
    )* };
}

stored!(u8, u16, u32, u64);

fn swap_strided<const SIZE: usize>(data: &[u8], offset: usize, blocks: usize, stride: usize, out: &mut Vec<u8>)
where
    [u8; SIZE]: Stored,
{
    out.reserve(blocks * SIZE);
    let numbers = (0..blocks).filter_map(|index| data.get(index * stride + offset..)?.first_chunk::<SIZE>());
    numbers.for_each(|number| out.extend_from_slice(&number.native()));
}

/// Maximum size of a run whose bytes are swapped inline. Dispatching to vector instructions pays off only for longer
/// runs.
const SHORT_RUN_BYTES: usize = 128;

/// Copy big-endian numbers and convert them to native byte order.
#[inline]
fn swap_run<const SIZE: usize>(stored: &[u8], out: &mut Vec<u8>)
where
    [u8; SIZE]: Stored,
{
    out.reserve(stored.len());
    stored.as_chunks::<SIZE>().0.iter().for_each(|number| out.extend_from_slice(&number.native()));
}

/// Decode numbers and append them to a slot.
#[inline]
pub(crate) fn append(scalar: Scalar, stored: &[u8], out: &mut Vec<u8>) {
    fn one<const SIZE: usize>(stored: &[u8], out: &mut Vec<u8>)
    where
        [u8; SIZE]: Stored,
    {
        if let Some(number) = stored.first_chunk::<SIZE>() {
            out.extend_from_slice(&number.native());
        }
    }
    // Single numbers are the most frequent case. Decoding them inline is faster than calling the decoder for arrays.
    let of_size = match scalar {
        Scalar::Plain(Number::Bool) | Scalar::Double32(_) | Scalar::Float16(_) => 0,
        Scalar::Plain(number) => number.size(),
    };
    match (of_size, stored.len()) {
        (4, 4) => one::<4>(stored, out),
        (8, 8) => one::<8>(stored, out),
        (2, 2) => one::<2>(stored, out),
        (1, _) => out.extend_from_slice(stored),
        (4, ..=SHORT_RUN_BYTES) => swap_run::<4>(stored, out),
        (8, ..=SHORT_RUN_BYTES) => swap_run::<8>(stored, out),
        (2, ..=SHORT_RUN_BYTES) => swap_run::<2>(stored, out),
        _ => {
            let start = out.len();
            out.resize(start + stored.len() / scalar.stored_size() * scalar.size(), 0);
            scalar.decode(stored, &mut out[start..]);
        }
    }
}
