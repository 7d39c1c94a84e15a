//! Logs decoded baskets and pages, and activities of threads, in the journal.

use std::time::Instant;

use super::branches::Branches;
use super::names::Kind;
use super::writer::{with_log, ThreadLog};

/// A branch of a tree.
#[derive(Clone, Copy)]
pub struct UsedBranch<'a> {
    /// All branches of the tree.
    pub branches: &'a Branches,
    /// Index of the branch.
    pub index: usize,
}

/// A range of a file.
#[derive(Clone, Copy, Default)]
pub struct UsedRange {
    /// Offset of its first byte.
    pub offset: u64,
    /// Size in bytes.
    pub size_bytes: u64,
}

/// A basket, or a cluster of a field, that has just been decompressed and decoded.
pub struct Used<'a> {
    /// Path of the file.
    pub file: &'a str,
    /// Name of the tree.
    pub tree: &'a str,
    /// Branch of the basket.
    pub branch: UsedBranch<'a>,
    /// Index of the basket in its branch.
    pub basket: usize,
    /// Range of entries.
    pub entries: std::ops::Range<u64>,
    /// Position in the file; None for a cluster, and for a basket inside its tree's record.
    pub place: Option<UsedRange>,
    /// Duration of decompression.
    pub decompress_ns: u64,
    /// Duration of decoding.
    pub decode_ns: u64,
}

/// Logs that a basket was used.
pub fn used(one: &Used<'_>) {
    with_log(|own| {
        let end = own.journal.ns(Instant::now());
        // An unknown position is logged as offset 0: the file header is there, never a basket.
        let UsedRange { offset, size_bytes } = one.place.unwrap_or_default();
        let texts = [own.name(Kind::File, one.file), own.name(Kind::Tree, one.tree), number_of(one.branch, own)];
        let basket = one.basket as u32;
        let numbers = [one.entries.start, one.entries.end, offset, size_bytes, end, one.decompress_ns, one.decode_ns];
        own.log(|buffer| buffer.put_used(texts, basket, numbers));
    });
}

/// A page of an RNTuple that has just been unpacked.
pub struct UsedPage<'a> {
    /// Path of the file.
    pub file: &'a str,
    /// Name of the tree.
    pub tree: &'a str,
    /// Field of the page.
    pub branch: UsedBranch<'a>,
    /// Column of the page.
    pub column: usize,
    /// Index of the cluster.
    pub cluster: usize,
    /// Entries of the cluster.
    pub entries: std::ops::Range<u64>,
    /// Position in the file.
    pub place: UsedRange,
}

/// Logs that a page was used.
pub fn used_page(one: &UsedPage<'_>) {
    with_log(|own| {
        let end = own.journal.ns(Instant::now());
        let texts = [own.name(Kind::File, one.file), own.name(Kind::Tree, one.tree), number_of(one.branch, own)];
        let numbers = [one.entries.start, one.entries.end, one.place.offset, one.place.size_bytes, end];
        own.log(|buffer| buffer.put_page(texts, one.column as u32, one.cluster as u32, numbers));
    });
}

/// Logs an activity of this thread from `since` until now, such as waiting for a chunk or running a wagon.
pub fn did(what: &str, wagon: &str, since: Instant) {
    with_log(|own| {
        let times = [own.journal.ns(since), own.journal.ns(Instant::now())];
        let texts = [own.name(Kind::What, what), own.name(Kind::Wagon, wagon)];
        own.log(|buffer| buffer.put_span(texts, times));
    });
}

/// Returns the ID of a branch's path.
fn number_of(branch: UsedBranch<'_>, own: &ThreadLog) -> u32 {
    branch.branches.number(branch.index, &own.journal)
}
