//! Programs taken through the bytes of entries.

mod block;
mod columns;
mod convert;
pub(crate) mod empty_entry;
mod entries;
mod entry_pointers;
mod expansion;
mod machine;
mod many;
mod pointers;
mod slot;
