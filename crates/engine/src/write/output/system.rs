//! What Linux and other systems do differently with the file that is written.

#[cfg(target_os = "linux")]
mod chosen {
    use std::fs::File;
    use std::num::NonZeroU64;
    use std::ops::Range;

    use rustix::fs::{fadvise, fallocate, fstatfs, Advice, FallocateFlags};

    /// File systems that keep room without writing to it, by their numbers: ext4 and XFS. Others may fill it with
    /// zeros, or do without compression of what lies in it.
    const KEEPING: &[u32] = &[0x0000_ef53, 0x5846_5342];

    /// Has the kernel begin to write a range to the disk. Linux does so with pages that are advised as not needed, and
    /// keeps them in its cache. Without that the last sync takes longer.
    pub(in crate::write::output) fn begin_writing(file: &File, range: &Range<u64>) {
        let length = NonZeroU64::new(range.end.saturating_sub(range.start));
        fadvise(file, range.start, length, Advice::DontNeed).ok();
    }

    /// Whether the file system of a file keeps room behind its end.
    pub(in crate::write::output) fn keeps_room(file: &File) -> bool {
        fstatfs(file).is_ok_and(|status| KEEPING.contains(&(status.f_type as u32)))
    }

    /// Keeps room behind the end of a file; whether that was possible.
    pub(in crate::write::output) fn keep_room(file: &File, from: u64, length: u64) -> bool {
        fallocate(file, FallocateFlags::KEEP_SIZE, from, length).is_ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod chosen {
    use std::fs::File;
    use std::ops::Range;

    /// The last sync writes everything.
    pub(in crate::write::output) fn begin_writing(_file: &File, _range: &Range<u64>) {}

    /// No room is kept.
    pub(in crate::write::output) fn keeps_room(_file: &File) -> bool {
        false
    }

    /// No room is kept.
    pub(in crate::write::output) fn keep_room(_file: &File, _from: u64, _length: u64) -> bool {
        false
    }
}

pub(super) use chosen::{begin_writing, keep_room, keeps_room};
