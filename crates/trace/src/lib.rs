//! Counters of a read, declared in one list.
