//! Objects: what their streamer infos say, compiled to steps that fill columns.

mod block;
mod classes;
pub(crate) mod compile;
mod convert;
pub(crate) mod cpp_type;
mod entries;
pub(crate) mod form;
mod machine;
pub(crate) mod members;
mod nothing;
mod pointers;
pub(crate) mod program;
pub(crate) mod special;
mod unstored;

pub use classes::Classes;
pub use entries::Program;
pub use nothing::nothing;
