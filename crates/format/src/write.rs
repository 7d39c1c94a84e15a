//! What a ROOT file is made of, as bytes: the reverse of the readers of this crate. No I/O: who writes gets bytes.

mod basket;
pub mod emit;
pub mod file;
mod infos;
pub mod key;
pub mod record;
mod record_class;

pub use basket::BasketTools;
pub use emit::Changes;
pub use file::{FileFrame, RecordPlace};
pub use infos::{join_infos, InfoList};
pub use key::{move_record, NewKey};
pub use record::{Kept, KeptKind, Owner, OwnerKind, Recording};
