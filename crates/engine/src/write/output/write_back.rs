//! Has the disk written by a thread of its own while there is more to come, so that the last wait for it is short.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{unbounded, Receiver, Sender};
use rustix::fs::{fadvise, Advice};

/// A thread that tells the kernel to begin with what was written, which may have to wait for the disk.
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
        let work = move || own.into_iter().for_each(|range| begin(&file, &range));
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

/// To say that pages are not needed is how Linux is told to begin with those that it has to write first; these stay in
/// its cache. It may refuse: then all is waited for in the end.
fn begin(file: &File, range: &Range<u64>) {
    let length = NonZeroU64::new(range.end.saturating_sub(range.start));
    fadvise(file, range.start, length, Advice::DontNeed).ok();
}

impl Drop for Flushing {
    fn drop(&mut self) {
        // Who waits for the disk waits for all of it, and who gives up for nothing.
        self.ranges = None;
        while self.queue.try_recv().is_ok() {}
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}
