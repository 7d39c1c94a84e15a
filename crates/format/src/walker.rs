//! Walks through objects by the streamer infos of their classes. A visitor names the members that it wants, and gets
//! their values and positions. With it `tree` reads the metadata of trees, and `write` takes records apart.

mod collections;
mod description;
mod program;
mod walk;

pub(crate) use program::{ClassId, Programs};
pub(crate) use walk::{Value, Visitor, Walker};
