//! Objects: what their streamer infos say, compiled to steps that fill columns. `compile` makes what `model` describes,
//! `run` takes it through the bytes of entries.

pub(crate) mod compile;
mod run;

pub use crate::layout::program::{Classes, Program};
pub use run::empty_entry::empty_entry;
