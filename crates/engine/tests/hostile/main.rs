//! Fuzzes whole files: bit flips, truncations, splices and invalid lengths in thousands of cases from a printed seed.
//!
//! Every case must end within a deadline and without a panic. Reading the mutated file may take more memory than
//! reading the original, but only by a fixed amount plus a multiple of the file size. Every branch must give either
//! values, or an error with the file, the object and the offset. The values must equal the original values, unless the
//! changed bytes have no checksum and are not stored redundantly. This applies to two kinds of bytes:
//!
//! - The data of a basket that is stored uncompressed or by a codec without a checksum (zstd as used by ROOT, the old
//!   CS), or of an RNTuple page without a checksum. Only this branch, and branches that depend on its counts, may then
//!   give other values.
//! - Metadata without a checksum: the header, keys, uncompressed streamer infos, and an uncompressed tree.
//!
//! The changed bytes are known exactly as long as the length of the file does not change. An insertion or a removal
//! shifts all following bytes, and any values that depend on them may then differ.
//!
//! If a mutation replaces a compressed stream by another complete stream, the checksum of the new stream is valid too.
//!
//! The seed is constant, unless BRANCHLINE_SEED sets another seed (or `now`). BRANCHLINE_CASES sets the number of cases
//! per file, and BRANCHLINE_FILE selects files by a part of their path.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../../../../fuzz/src/allocations.rs"]
mod allocations;
mod anatomy;
#[path = "../../../../fuzz/src/columns.rs"]
mod columns;
mod files;
mod mutation;
mod reading;
mod watch;

use std::collections::BTreeMap;
use std::path::Path;

use allocations::peak_of;
use anatomy::{Anatomy, Touched};
use mutation::{mutated, Random};
use reading::{read, Outcome, Reading, Which};

#[global_allocator]
static ALLOCATOR: allocations::CountingAllocator = allocations::CountingAllocator;

/// Maximum memory that reading a mutated file may use in addition to the memory for the original: as much as a
/// compression record can claim.
const BASE_BYTES: usize = 16 << 20;
/// Maximum additional memory per byte of the file.
const FACTOR: usize = 32;
/// A seed with which at least one case swaps two compressed streams of pduneana.root.
const SEED: u64 = 1_795_373_085;
/// Number of cases per file. Large files get fewer cases, but at least `CASES_MIN`.
const CASES: u64 = 12;
const CASES_MIN: u64 = 4;
const LARGE_BYTES: u64 = 200_000;

/// The results of the cases of all files.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    more_bytes: usize,
}

impl Tally {
    fn add(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }
}

fn number_in_environment(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} must be a number, got {text:?}")))
}

fn seed() -> u64 {
    if std::env::var("BRANCHLINE_SEED").as_deref() == Ok("now") {
        return std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs();
    }
    number_in_environment("BRANCHLINE_SEED").unwrap_or(SEED)
}

#[test]
fn wrong_bytes_give_right_values_or_errors() {
    let seed = seed();
    let cases = number_in_environment("BRANCHLINE_CASES").unwrap_or(CASES);
    println!("BRANCHLINE_SEED={seed}");
    watch::start();
    let folder = files::Folder::new();
    let mut tally = Tally::default();
    let part = std::env::var("BRANCHLINE_FILE").unwrap_or_default();
    for path in files::all().iter().filter(|path| path.to_string_lossy().contains(&part)) {
        mutate_file(path, &folder.file("case.root"), seed, cases, &mut tally);
    }
    println!("{:?}; at most {} bytes more than for the original file", tally.counts, tally.more_bytes);
    for what in ["case", "right values", "error", "values of unprotected bytes"] {
        assert!(tally.counts.contains_key(what), "not one {what} in {:?}", tally.counts);
    }
}

/// An unmodified file, with the results of reading it and the memory that reading takes.
struct Original {
    name: String,
    anatomy: Anatomy,
    truth: Reading,
    peak_bytes: usize,
}

fn mutate_file(path: &Path, case_path: &Path, seed: u64, cases: u64, tally: &mut Tally) {
    let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{name}: {error}"));
    let Some(anatomy) = Anatomy::of(&bytes) else {
        tally.add("unreadable original file");
        return;
    };
    let laid_open = anatomy::laid_open(&bytes).and_then(|bytes| Anatomy::of(&bytes));
    let fewer = 2 * (bytes.len() as u64 / LARGE_BYTES + 1);
    for (variant, anatomy) in [Some(anatomy), laid_open].into_iter().flatten().enumerate() {
        let name = if variant == 0 { name.clone() } else { format!("{name}, uncompressed") };
        std::fs::write(case_path, &anatomy.bytes).expect("a temporary file can be written");
        watch::begin(format!("{name}, unmodified"));
        let (truth, peak_bytes) = peak_of(|| read(case_path, None));
        let original = Original { name, anatomy, truth, peak_bytes };
        for case in 0..(cases / fewer).max(CASES_MIN.min(cases)) {
            run_case(&original, case_path, seed, case, tally);
        }
    }
}

fn run_case(original: &Original, path: &Path, seed: u64, case: u64, tally: &mut Tally) {
    let Original { name, anatomy, truth, .. } = original;
    let mut random = Random::new(seed, &format!("{name} {case}"));
    let wrong = mutated(&anatomy.bytes, &anatomy.hot, &mut random);
    let about = format!("BRANCHLINE_SEED={seed}, {name}, case {case}: {}", wrong.done);
    std::fs::write(path, &wrong.bytes).expect("a temporary file can be written");
    let touched = anatomy.touched(&wrong);
    let wanted = reading::choice(truth, &touched, &mut random);
    watch::begin(about.clone());
    let (got, peak_bytes) = peak_of(|| read(path, Some(&wanted)));
    let more_bytes = peak_bytes.saturating_sub(original.peak_bytes);
    let most_bytes = BASE_BYTES + FACTOR * wrong.bytes.len();
    assert!(
        more_bytes <= most_bytes,
        "{about}: {more_bytes} bytes more than for the original file, at most {most_bytes} allowed"
    );
    tally.add("case");
    tally.more_bytes = tally.more_bytes.max(more_bytes);
    for which in wanted.iter().filter(|which| !got.contains_key(*which)) {
        let said = got.contains_key(&(which.0.clone(), String::new())) || got.contains_key(&Which::default());
        assert!(said || touched.description, "{about}: {which:?} is lost without an error");
    }
    for (which, outcome) in &got {
        tally.add(judge(&touched, which, truth.get(which), outcome, path, &about));
    }
}

/// Classifies the outcome of reading a branch, and panics if the outcome is not allowed.
fn judge(
    touched: &Touched,
    which: &Which,
    truth: Option<&Outcome>,
    outcome: &Outcome,
    path: &Path,
    about: &str,
) -> &'static str {
    match outcome {
        Outcome::Error(error) => {
            reading::check_error(error, path, about);
            let had_values = matches!(truth, Some(Outcome::Values { .. }));
            assert!(!(had_values && touched.spares(which)), "{about}: {which:?} was not touched, but: {error}");
            "error"
        }
        values if truth == Some(values) => "right values",
        _ => {
            assert!(touched.may_change(which), "{about}: {which:?} gives other values");
            "values of unprotected bytes"
        }
    }
}
