//! What the entries of a branch look like in its baskets, by its leaves and the streamer infos.

mod empty;
mod model;
mod of_branch;

pub use model::{Kind, Layout, RunHeader};
pub use of_branch::kind_of;
