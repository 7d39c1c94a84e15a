//! Descriptions of classes: streamer infos, and the classes that ROOT knows by itself.

pub mod buffer;
pub mod class_info;
pub(crate) mod root_classes;
pub mod streamer;
