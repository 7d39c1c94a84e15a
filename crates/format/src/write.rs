//! Encoding of ROOT files into bytes, without I/O.
//!
//! ```
//! use branchline_format::write::datime;
//!
//! // 1995-01-01, the first day that TDatime supports. Months and days start at 1.
//! assert_eq!(datime(788_918_400), 1 << 22 | 1 << 17);
//! ```

mod datime;
pub mod file;
pub mod key;
pub mod object;
pub(crate) mod sums;
pub mod tree;

pub use datime::datime;
pub use sums::addend::Addend;
pub use sums::changes::Changes;
pub use tree::basket::BasketTools;
pub use tree::basket_record::{BasketContents, BasketForm, BasketFrame, NewBasket};
pub use tree::bounds::Bounds;
pub use tree::embedded::embedded_record;
pub use tree::tree_template::{FilledTree, TreeTemplate};

pub use file::{FileFrame, KeyListRecord, NewDirectory, RecordPlace};
pub use key::{move_record, NewKey, NewPlace};
pub use object::family::{adds_up, OwnerKind};
pub use object::graft::Graft;
pub use object::index::TreeIndex;
pub use object::infos::{join_infos, InfoList};
pub use object::recorder::ObjectPrograms;
pub use object::recording::Recording;
pub use object::token::{MemberStorage, Owner, RecordedMember};
pub use sums::histogram::SumPlan;
pub use sums::sum::Sum;
pub use tree::new_basket::{BasketMaker, Entries, References};
pub use tree::slim::slim;
