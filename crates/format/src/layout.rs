//! What the entries of a branch look like in its baskets, by its leaves and the streamer infos.

pub(crate) mod branch;
mod empty;
pub(crate) mod form;
pub(crate) mod program;
pub(crate) mod steps;

pub use branch::{Kind, Layout, RunHeader};
