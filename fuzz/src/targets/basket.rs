//! A basket of numbers, in a layout that the first bytes choose.

use crate::input::Input;
use crate::{baskets, layouts};

pub fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let layout = layouts::read(&mut input);
    baskets::check(&layout, &mut input, 0);
}
