//! Baskets and pages that were decoded, and what threads did when, in the journal.

use std::time::Instant;

use super::branches::Branches;
use super::names::Kind;
use super::writer::{with_log, ThreadLog};

/// A branch of a tree.
#[derive(Clone, Copy)]
pub struct UsedBranch<'a> {
    /// All branches of the tree.
    pub branches: &'a Branches,
    /// Which of them it is.
    pub index: usize,
}

/// A range of a file.
#[derive(Clone, Copy, Default)]
pub struct UsedRange {
    /// Its first byte.
    pub offset: u64,
    /// Its bytes.
    pub size_bytes: u64,
}

/// A basket, or a cluster of a field, that has just been decompressed and decoded.
pub struct Used<'a> {
    /// The file.
    pub file: &'a str,
    /// The tree.
    pub tree: &'a str,
    /// Its branch.
    pub branch: UsedBranch<'a>,
    /// The number of the basket in its branch.
    pub basket: usize,
    /// Its entries.
    pub entries: std::ops::Range<u64>,
    /// Where it is in the file; None for a basket in the record of its tree, and for a cluster.
    pub place: Option<UsedRange>,
    /// Time that decompressing and decoding took.
    pub decompress_ns: u64,
    /// Time that decoding took.
    pub decode_ns: u64,
}

/// Logs that a basket was used.
pub fn used(one: &Used<'_>) {
    with_log(|own| {
        let end = own.journal.ns(Instant::now());
        // No basket lies at 0, where the header is.
        let UsedRange { offset, size_bytes } = one.place.unwrap_or_default();
        let texts = [own.name(Kind::File, one.file), own.name(Kind::Tree, one.tree), number_of(one.branch, own)];
        let basket = one.basket as u32;
        let numbers = [one.entries.start, one.entries.end, offset, size_bytes, end, one.decompress_ns, one.decode_ns];
        own.log(|buffer| buffer.put_used(texts, basket, numbers));
    });
}

/// A page of an RNTuple that has just been unpacked.
pub struct UsedPage<'a> {
    /// The file.
    pub file: &'a str,
    /// The tree.
    pub tree: &'a str,
    /// Its field.
    pub branch: UsedBranch<'a>,
    /// The column that it is of.
    pub column: usize,
    /// The cluster.
    pub cluster: usize,
    /// The entries of the cluster.
    pub entries: std::ops::Range<u64>,
    /// Where it lies.
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

/// Logs what this thread did from `since` until now, such as waiting for a chunk or running a wagon.
pub fn did(what: &str, wagon: &str, since: Instant) {
    with_log(|own| {
        let times = [own.journal.ns(since), own.journal.ns(Instant::now())];
        let texts = [own.name(Kind::What, what), own.name(Kind::Wagon, wagon)];
        own.log(|buffer| buffer.put_span(texts, times));
    });
}

/// The number of the path of a branch.
fn number_of(branch: UsedBranch<'_>, own: &ThreadLog) -> u32 {
    branch.branches.number(branch.index, &own.journal)
}
