//! A forked process has the journal of its parent and, of all threads, only the one that forked. It begins a journal of
//! its own with its first record. Records that the parent has not written yet stay the parent's. A system call for the
//! process id at each request would add a tenth to the cost of a record.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

/// Whether this process was forked from one that recorded its requests, and has no journal of its own yet.
pub(super) static IS_CHILD: AtomicBool = AtomicBool::new(false);
static WATCHED: Once = Once::new();

type Handler = Option<unsafe extern "C" fn()>;

extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Notices forks from now on.
pub(super) fn watch() {
    // SAFETY: this is the function of the C library, with its signature. The handler only sets a flag, and exists as
    // long as the process: modules of Python are never unloaded.
    WATCHED.call_once(|| _ = unsafe { pthread_atfork(None, None, Some(in_child)) });
}
