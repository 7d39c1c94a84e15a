//! Wrong bytes over whole files: flips, cuts, splices and lying lengths in thousands of cases from a printed seed.
//!
//! Every case ends within a deadline, without a panic, and takes no more memory than reading the right file does and a
//! stated multiple of the file's size. Every branch then gives an error that names file, object and offset, or values.
//! The values are those of the file as it was, unless what was changed has no checksum and stands in nothing that is
//! said twice:
//!
//! - in the data of a basket that is stored plain, or by a codec without checksum (zstd as ROOT uses it, the old CS),
//!   or in a page of an RNTuple that was written without one: then that branch, and those whose elements it counts, may
//!   give other values, and no other branch may;
//! - in what describes the data, where that is stored so: the header, keys, plain streamer infos, a plain tree.
//!
//! What was changed is known byte by byte as long as the file keeps its length; where bytes were cut out or put in, all
//! behind them has moved, and any of its values may be others.
//!
//! A whole compressed stream that was put in the place of another is no wrong byte for its checksum either.
//!
//! The seed is the same each time, unless BRANCHLINE_SEED gives another one (or says `now`); BRANCHLINE_CASES gives the
//! cases of each file, BRANCHLINE_FILE chooses files by a part of their path.

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

/// What reading a wrong file may take beyond what the right one takes: the most that a compression record can promise.
const BASE_BYTES: usize = 16 << 20;
/// And for each byte of the file this many more.
const FACTOR: usize = 32;
/// A seed whose cases include a stream in the place of another one (in pduneana.root).
const SEED: u64 = 1_795_373_085;
/// Cases of a file, fewer of a large one.
const CASES: u64 = 12;
const CASES_MIN: u64 = 4;
const LARGE_BYTES: u64 = 200_000;

/// What the cases of all files gave.
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
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
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
    println!("{:?}; at most {} bytes more than for the right file", tally.counts, tally.more_bytes);
    for what in ["case", "right values", "error", "values of unprotected bytes"] {
        assert!(tally.counts.contains_key(what), "not one {what} in {:?}", tally.counts);
    }
}

/// A file as it is, and what reading it gives and takes.
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
        tally.add("file that is not read as it is");
        return;
    };
    let laid_open = anatomy::laid_open(&bytes).and_then(|bytes| Anatomy::of(&bytes));
    let fewer = 2 * (bytes.len() as u64 / LARGE_BYTES + 1);
    for (variant, anatomy) in [Some(anatomy), laid_open].into_iter().flatten().enumerate() {
        let name = if variant == 0 { name.clone() } else { format!("{name}, laid open") };
        std::fs::write(case_path, &anatomy.bytes).expect("a temporary file can be written");
        watch::begin(format!("{name}, as it is"));
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
    assert!(more_bytes <= most_bytes, "{about}: {more_bytes} bytes more than for the right file, not {most_bytes}");
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

/// Says what was read of a branch, which must be one of the things that are allowed.
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
