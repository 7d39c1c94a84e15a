//! What a ROOT file is made of, as bytes: the reverse of the readers of this crate. No I/O: who writes gets bytes.

mod alike;
mod basket;
mod basket_record;
mod bounds;
pub mod classes;
mod datime;
mod embedded;
pub mod emit;
pub mod family;
pub mod file;
mod index;
mod infos;
pub mod key;
mod new_basket;
mod numbers;
mod pieces;
pub mod record;
mod record_class;
mod slim;
mod sum;
pub mod tree_record;

pub use alike::{Alike, TreeForm};
pub use basket::BasketTools;
pub use basket_record::{BasketContents, BasketForm, BasketFrame, NewBasket};
pub use datime::datime;
pub use embedded::embedded_record;
pub use emit::Changes;
pub use family::{adds_up, OwnerKind};
pub use file::{FileFrame, NewDirectory, RecordPlace};
pub use index::TreeIndex;
pub use infos::{join_infos, InfoList};
pub use key::{move_record, NewKey, NewPlace};
pub use new_basket::{BasketMaker, Bounds, Entries, References};
pub use record::{Kept, KeptKind, Owner, Recording};
pub use slim::slim;
pub use sum::{Addend, Sum};
