//! A thread that makes the kernel write bytes to disk while more bytes follow, so that the final sync is short.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{unbounded, Receiver, Sender};

use super::system::begin_writing;

/// The write-back thread. A thread is needed because the system call may block on the disk.
#[derive(Debug)]
pub(crate) struct WriteBack {
    ranges: Option<Sender<Range<u64>>>,
    queue: Receiver<Range<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl WriteBack {
    /// Starts the thread for a file.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (ranges, queue) = unbounded::<Range<u64>>();
        let own = queue.clone();
        let work = move || own.into_iter().for_each(|range| begin_writing(&file, &range));
        let thread = thread::Builder::new().name("branchline-flush".to_owned()).spawn(work)?;
        Ok(Self { ranges: Some(ranges), queue, thread: Some(thread) })
    }

    /// Makes the kernel start writing this range to disk.
    pub(crate) fn begin(&self, range: Range<u64>) {
        if let Some(ranges) = &self.ranges {
            drop(ranges.send(range));
        }
    }
}

impl Drop for WriteBack {
    fn drop(&mut self) {
        // Drop ranges that are not started yet: a sync will write them, and an abandoned output does not need them.
        self.ranges = None;
        while self.queue.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
