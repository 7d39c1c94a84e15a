//! A basket of numbers, in a layout that the first bytes choose.

#![no_main]

use branchline_fuzz::input::Input;
use branchline_fuzz::{baskets, layouts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input(bytes);
    let layout = layouts::read(&mut input);
    baskets::check(&layout, &mut input, 0);
});
