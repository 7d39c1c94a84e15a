//! All fuzz targets in one program: it is compiled and linked once. The environment variable `FUZZ_TARGET` names the
//! target that is fed.

#![no_main]

mod basket;
mod codecs;
mod file;
mod moved;
mod ntuple_envelopes;
mod ntuple_pages;
mod ntuple_written;
mod objects;
mod records;
mod streamer_infos;
mod sums;
mod tree;
mod written;

use std::env;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 13] = [
    ("basket", basket::run),
    ("codecs", codecs::run),
    ("file", file::run),
    ("moved", moved::run),
    ("ntuple_envelopes", ntuple_envelopes::run),
    ("ntuple_pages", ntuple_pages::run),
    ("ntuple_written", ntuple_written::run),
    ("objects", objects::run),
    ("records", records::run),
    ("streamer_infos", streamer_infos::run),
    ("sums", sums::run),
    ("tree", tree::run),
    ("written", written::run),
];

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.0 == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name} is none of {:?}", TARGETS.map(|target| target.0))).1
});

fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
