//! Objects taken apart into records and put together again.

pub(crate) mod axis;
pub mod classes;
pub(crate) mod emitter;
pub mod family;
pub(crate) mod graft;
pub(crate) mod index;
pub(crate) mod infos;
pub(crate) mod number_table;
pub(crate) mod numbers;
pub(crate) mod pieces;
pub(crate) mod record_members;
pub(crate) mod recorder;
pub(crate) mod recording;
pub(crate) mod sparse;
pub(crate) mod token;
