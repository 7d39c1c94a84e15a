//! Walks through objects by the streamer infos of their classes. A visitor says which members it wants, and is given
//! what they hold and where they are: `tree` reads the metadata of trees so, and `write` takes records apart.

mod collections;
mod description;
mod program;
mod walk;

pub(crate) use program::ClassId;
pub(crate) use walk::{Value, Visitor, Walker};
