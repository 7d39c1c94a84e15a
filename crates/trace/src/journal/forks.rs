//! Detects forks. A forked process inherits its parent's journal, but only the thread that called `fork`. It starts its
//! own journal when it logs its first record, and leaves the parent's unwritten records to the parent. Querying the
//! process ID at each request instead would increase the cost of a record by 10%.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;

/// Whether this process was forked from one with a journal and has not started its own yet.
pub(super) static IS_CHILD: AtomicBool = AtomicBool::new(false);
static WATCHED: Once = Once::new();

type Handler = Option<unsafe extern "C" fn()>;

unsafe extern "C" {
    fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> c_int;
}

unsafe extern "C" fn in_child() {
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// Starts detecting forks.
pub(super) fn watch() {
    // SAFETY: the declaration matches the C library. The handler only sets a flag, and exists as long as the process,
    // because Python never unloads extension modules.
    WATCHED.call_once(|| _ = unsafe { pthread_atfork(None, None, Some(in_child)) });
}
