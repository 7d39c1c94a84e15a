//! Traversal of objects, guided by the streamer infos of their classes. A visitor selects members and receives their
//! values and positions. `tree` uses this traversal to read tree metadata, and `write` to split records.

mod collections;
mod description;
mod program;
mod walk;

pub(crate) use program::{ClassId, Programs};
pub(crate) use walk::{Value, Visitor, Walker};
