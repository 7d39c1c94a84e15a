//! A thread that has the kernel write to the disk while more is written, so that the last wait for the disk is short.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{unbounded, Receiver, Sender};

use super::system::begin_writing;

/// The thread. Asking the kernel may have to wait for the disk.
#[derive(Debug)]
pub(crate) struct Flushing {
    ranges: Option<Sender<Range<u64>>>,
    queue: Receiver<Range<u64>>,
    thread: Option<JoinHandle<()>>,
}

impl Flushing {
    /// Begins with nothing.
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let (ranges, queue) = unbounded::<Range<u64>>();
        let own = queue.clone();
        let work = move || own.into_iter().for_each(|range| begin_writing(&file, &range));
        let thread = thread::Builder::new().name("branchline-flush".to_owned()).spawn(work)?;
        Ok(Self { ranges: Some(ranges), queue, thread: Some(thread) })
    }

    /// Has these bytes written soon.
    pub(crate) fn begin(&self, range: Range<u64>) {
        if let Some(ranges) = &self.ranges {
            drop(ranges.send(range));
        }
    }
}

impl Drop for Flushing {
    fn drop(&mut self) {
        // A sync writes the rest, and an output that is given up needs none of it.
        self.ranges = None;
        while self.queue.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
