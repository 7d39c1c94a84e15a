//! Addition of objects from several files, like in ROOT.

pub(crate) mod addend;
pub(crate) mod buffered_fills;
pub(crate) mod changes;
pub(crate) mod efficiency;
pub(crate) mod emit;
pub(crate) mod fills;
pub(crate) mod found_limits;
pub(crate) mod graph;
pub(crate) mod grid;
pub(crate) mod histogram;
pub(crate) mod parameter;
pub(crate) mod polygons;
pub(crate) mod statistics;
pub(crate) mod sum;
