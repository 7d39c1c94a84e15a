//! Programs taken through the bytes of entries.

mod block;
mod columns;
mod convert;
mod entries;
mod entry_pointers;
mod machine;
pub(crate) mod nothing;
mod pointers;
mod slot;
mod unstored;
