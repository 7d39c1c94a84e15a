//! Compiler of streamer infos and C++ types to programs.

mod class;
pub(crate) mod compiler;
mod fuse;
pub(crate) mod members;
pub(crate) mod piece;
mod programs;
mod special;
