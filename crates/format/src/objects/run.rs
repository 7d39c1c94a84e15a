//! Execution of programs on entry bytes.

mod block;
mod columns;
mod convert;
pub(crate) mod empty_entry;
mod entries;
mod entry_pointers;
mod enumerations;
mod expansion;
mod machine;
mod many;
mod pointers;
mod slot;
