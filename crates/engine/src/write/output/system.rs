//! Platform-specific operations on output files, for Linux and, as fallbacks, for other systems.

#[cfg(target_os = "linux")]
mod chosen {
    use std::fs::File;
    use std::num::NonZeroU64;
    use std::ops::Range;

    use rustix::fs::{fadvise, fallocate, fstatfs, Advice, FallocateFlags};

    /// Magic numbers of the file systems on which space can be preallocated without writing it: ext4 and XFS. Other
    /// file systems may fill the space with zeros, or disable compression for it.
    const KEEPING: &[u32] = &[0x0000_ef53, 0x5846_5342];

    /// Makes the kernel start writing a range to disk, so that the final sync takes less time. Linux does so when it is
    /// advised that the pages are not needed, and still keeps them in its cache.
    pub(in crate::write::output) fn begin_writing(file: &File, range: &Range<u64>) {
        let length = NonZeroU64::new(range.end.saturating_sub(range.start));
        fadvise(file, range.start, length, Advice::DontNeed).ok();
    }

    /// Whether the file system of a file supports preallocation.
    pub(in crate::write::output) fn keeps_room(file: &File) -> bool {
        fstatfs(file).is_ok_and(|status| KEEPING.contains(&(status.f_type as u32)))
    }

    /// Preallocates space after the end of a file. Returns whether this succeeded.
    pub(in crate::write::output) fn keep_room(file: &File, from: u64, length: u64) -> bool {
        fallocate(file, FallocateFlags::KEEP_SIZE, from, length).is_ok()
    }
}

#[cfg(not(target_os = "linux"))]
mod chosen {
    use std::fs::File;
    use std::ops::Range;

    /// Does nothing, because the final sync writes everything.
    pub(in crate::write::output) fn begin_writing(_file: &File, _range: &Range<u64>) {}

    /// Returns false, because preallocation is not supported.
    pub(in crate::write::output) fn keeps_room(_file: &File) -> bool {
        false
    }

    /// Returns false, because preallocation is not supported.
    pub(in crate::write::output) fn keep_room(_file: &File, _from: u64, _length: u64) -> bool {
        false
    }
}

pub(super) use chosen::{begin_writing, keep_room, keeps_room};
