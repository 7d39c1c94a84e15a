//! Serves an image file with the timing of a disk:
//! `emulated-disk IMAGE FOLDER BYTES_PER_S SHORTEST_US LONGEST_US TURN_US`.
//!
//! The folder gets one file, `disk`, for a loop device. Reads take as long as on the disk: one request at a time, in
//! the order of arrival, without an allowance for bursts. Writes are not slowed down.

use std::env;
use std::error::Error;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner, OpenFlags,
    ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

const DISK: INodeNo = INodeNo(2);
/// How long the kernel may cache attributes; they never change.
const FOREVER: Duration = Duration::from_secs(1_000_000);
/// A request that arrives this soon after the end of the previous one was waiting: the sleep took too long.
const OVERSLEPT_MAX: Duration = Duration::from_micros(300);
/// After a read, the disk reads the following bytes into its buffer for this long.
const READ_AHEAD_MAX: Duration = Duration::from_millis(10);

/// The timing of a disk.
struct Timing {
    bytes_per_s: f64,
    /// Seek time to the neighbouring track, and over the whole disk.
    shortest: Duration,
    longest: Duration,
    /// Mean time until the disk has turned to the first byte after a seek.
    turn: Duration,
    size: u64,
}

impl Timing {
    /// The time to read a range when the head is at `head`. A seek takes longer the farther it goes, like the square
    /// root of the distance. If the range is close ahead, the disk instead turns until it is below the head.
    fn of(&self, head: u64, offset: u64, length: u64) -> Duration {
        let transfer = self.transfer(length);
        if offset == head {
            return transfer;
        }
        let part = offset.abs_diff(head) as f64 / self.size as f64;
        let seek = self.shortest + (self.longest - self.shortest).mul_f64(part.sqrt()) + self.turn;
        let skip = if offset > head { self.transfer(offset - head) } else { Duration::MAX };
        seek.min(skip) + transfer
    }

    fn transfer(&self, length: u64) -> Duration {
        Duration::from_secs_f64(length as f64 / self.bytes_per_s)
    }
}

struct State {
    head: u64,
    free_at: Instant,
}

struct Disk {
    image: File,
    timing: Timing,
    state: Mutex<State>,
}

impl Disk {
    /// Waits as long as the disk needs for a range.
    fn wait(&self, offset: u64, length: u64) -> Result<(), Errno> {
        let mut state = self.state.lock().map_err(|_| Errno::EIO)?;
        let now = Instant::now();
        let ahead = if offset == state.head { READ_AHEAD_MAX } else { OVERSLEPT_MAX };
        let start = state.free_at.max(now - ahead);
        state.free_at = start + self.timing.of(state.head, offset, length);
        state.head = offset + length;
        thread::sleep(state.free_at.saturating_duration_since(Instant::now()));
        Ok(())
    }

    fn attributes(&self, of: INodeNo) -> FileAttr {
        let is_disk = of == DISK;
        FileAttr {
            ino: of,
            size: if is_disk { self.timing.size } else { 0 },
            blocks: if is_disk { self.timing.size / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

impl Filesystem for Disk {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == "disk" {
            reply.entry(&FOREVER, &self.attributes(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOREVER, &self.attributes(ino));
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // The kernel must not cache the file in addition to the loop device.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let length = u64::from(size).min(self.timing.size.saturating_sub(offset));
        let mut bytes = vec![0; length as usize];
        let done = self.image.read_exact_at(&mut bytes, offset).map_err(Errno::from);
        match done.and_then(|()| self.wait(offset, length)) {
            Ok(()) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.image.write_all_at(data, offset) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error.into()),
        }
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [image, folder, bytes_per_s, shortest, longest, turn] = arguments.as_slice() else {
        return Err("usage: emulated-disk IMAGE FOLDER BYTES_PER_S SHORTEST_US LONGEST_US TURN_US".into());
    };
    let image = OpenOptions::new().read(true).write(true).open(image)?;
    let timing = Timing {
        bytes_per_s: bytes_per_s.parse()?,
        shortest: Duration::from_micros(shortest.parse()?),
        longest: Duration::from_micros(longest.parse()?),
        turn: Duration::from_micros(turn.parse()?),
        size: image.metadata()?.len(),
    };
    let state = Mutex::new(State { head: 0, free_at: Instant::now() });
    fuser::mount(Disk { image, timing, state }, folder, &fuser::Config::default())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk of 100 MB that reads 10 MB/s, with seeks of 1 to 11 ms and turns of 4 ms.
    const DISK: Timing = Timing {
        bytes_per_s: 1e7,
        shortest: Duration::from_millis(1),
        longest: Duration::from_millis(11),
        turn: Duration::from_millis(4),
        size: 100_000_000,
    };

    fn milliseconds(head: u64, offset: u64, length: u64) -> u128 {
        (DISK.of(head, offset, length) + Duration::from_micros(1)).as_millis()
    }

    #[test]
    fn reading_on_takes_only_the_transfer() {
        assert_eq!(milliseconds(0, 0, 1_000_000), 100);
        assert_eq!(milliseconds(1_000_000, 1_000_000, 10_000), 1);
    }

    #[test]
    fn a_seek_takes_longer_the_farther_it_goes() {
        assert_eq!(milliseconds(25_000_000, 0, 0), 1 + 5 + 4);
        assert_eq!(milliseconds(0, 25_000_000, 0), 1 + 5 + 4);
        assert_eq!(milliseconds(100_000_000, 0, 0), 1 + 10 + 4);
    }

    #[test]
    fn a_short_gap_passes_below_the_head() {
        assert_eq!(milliseconds(0, 20_000, 10_000), 2 + 1);
        assert_eq!(milliseconds(20_000, 0, 10_000), 5 + 1);
    }
}
