//! All fuzz targets in one program: it is compiled and linked once. The environment variable `FUZZ_TARGET` names the
//! target that is fed.

#![no_main]

use std::env;
use std::sync::LazyLock;

use branchline_fuzz::targets::{Target, TARGETS};
use libfuzzer_sys::fuzz_target;

static CHOSEN: LazyLock<Target> = LazyLock::new(|| {
    let name = env::var("FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.0 == name);
    found.unwrap_or_else(|| panic!("FUZZ_TARGET={name} is none of {:?}", TARGETS.map(|target| target.0))).1
});

fuzz_target!(|bytes: &[u8]| CHOSEN(bytes));
