//! What a ROOT file is made of, as bytes: the reverse of the readers of this crate. No I/O: who writes gets bytes.

pub mod emit;
pub mod record;
mod record_class;

pub use emit::Changes;
pub use record::{Kept, KeptKind, Owner, OwnerKind, Recording};
