//! Mutates files reproducibly from a seed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Invalid lengths and counts.
const EXTREMES: [u32; 13] =
    [0, 1, 2, 3, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x4000_0000, 0x4000_0002];

/// Maximum number of bytes that a mutation copies from another position.
pub const MOVED_BYTES_MAX: usize = 256;

/// A generator of random numbers from a seed (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Creates the generator for a case.
    pub fn new(seed: u64, case: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, case).hash(&mut hasher);
        Self(hasher.finish())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }
}

/// A mutated file.
pub struct Wrong {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// A description of the mutations, for failure messages.
    pub done: String,
    /// The changed ranges. None if the mutations shifted bytes.
    pub ranges: Option<Vec<Range<usize>>>,
}

/// Applies one to four mutations to `bytes`, mostly to metadata (`hot`).
pub fn mutated(bytes: &[u8], hot: &[Range<usize>], random: &mut Random) -> Wrong {
    let mut wrong = Wrong { bytes: bytes.to_vec(), done: String::new(), ranges: Some(Vec::new()) };
    let times = [1, 1, 1, 2, 4][random.below(5)];
    for _ in 0..times {
        let at = place(wrong.bytes.len(), hot, random);
        change(&mut wrong, at, random);
    }
    wrong
}

fn place(size: usize, hot: &[Range<usize>], random: &mut Random) -> usize {
    if !hot.is_empty() && random.percent(60) {
        let range = &hot[random.below(hot.len())];
        return (range.start + random.below(range.len())).min(size);
    }
    if random.percent(10) {
        return random.below(size.min(100));
    }
    random.below(size)
}

fn change(wrong: &mut Wrong, at: usize, random: &mut Random) {
    let size = wrong.bytes.len();
    let at = at.min(size.saturating_sub(8));
    let kind = random.below(20);
    let (name, new): (&str, Vec<u8>) = match kind {
        0..=3 => ("flip", vec![wrong.bytes.get(at).copied().unwrap_or(0) ^ 1 << random.below(8)]),
        4..=5 => ("byte", vec![random.next() as u8]),
        6..=10 => ("word", lie(random).to_be_bytes().to_vec()),
        11..=12 => ("short", (lie(random) as u16).to_be_bytes().to_vec()),
        13 => ("fill", vec![[0, 0xff][random.below(2)]; 1 + random.below(32)]),
        14..=15 => {
            let from = random.below(size);
            let end = (from + 1 + random.below(64)).min(size);
            ("splice", wrong.bytes[from..end].to_vec())
        }
        16 => return remove(wrong, at, 1 + random.below(16)),
        17 => return remove(wrong, at, size),
        18 => return insert(wrong, at, random),
        _ => return swap(wrong, at, random),
    };
    overwrite(wrong, name, at, &new);
}

/// Returns an invalid number, which is either extreme or small.
fn lie(random: &mut Random) -> u32 {
    if random.percent(70) {
        EXTREMES[random.below(EXTREMES.len())]
    } else {
        random.below(1 << 16) as u32
    }
}

fn overwrite(wrong: &mut Wrong, name: &str, at: usize, new: &[u8]) {
    let end = (at + new.len()).min(wrong.bytes.len());
    wrong.done += &format!("{name} at {at}..{end} ");
    wrong.bytes[at..end].copy_from_slice(&new[..end - at]);
    if let Some(ranges) = &mut wrong.ranges {
        ranges.push(at..end);
    }
}

fn remove(wrong: &mut Wrong, at: usize, size: usize) {
    let end = at.saturating_add(size).min(wrong.bytes.len());
    wrong.done += &format!("cut of {at}..{end} ");
    wrong.bytes.drain(at..end);
    wrong.ranges = None;
}

fn insert(wrong: &mut Wrong, at: usize, random: &mut Random) {
    let new: Vec<u8> = (0..1 + random.below(8)).map(|_| random.next() as u8).collect();
    wrong.done += &format!("{} bytes inserted at {at} ", new.len());
    wrong.bytes.splice(at..at, new);
    wrong.ranges = None;
}

/// Swaps two pieces of the file.
fn swap(wrong: &mut Wrong, at: usize, random: &mut Random) {
    let other = random.below(wrong.bytes.len());
    let size = 1 + random.below(MOVED_BYTES_MAX);
    let (first, second) = (at.min(other), at.max(other));
    let size = size.min(second - first).min(wrong.bytes.len() - second);
    let (before, after) = (wrong.bytes[first..first + size].to_vec(), wrong.bytes[second..second + size].to_vec());
    overwrite(wrong, "swap", first, &after);
    overwrite(wrong, "swap", second, &before);
}
