//! Modes of reading local files.

/// Mode in which the bytes of a local file are read into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LocalMode {
    /// Through the kernel's cache: cached ranges in order, other ranges by several threads. Like `Advised` on macOS,
    /// and on file systems that do not report which ranges are cached.
    #[default]
    Auto,
    /// Through the kernel's cache, with readahead advice for bytes that are not cached. On network mounts, several
    /// threads read instead.
    Advised,
    /// Through the kernel's cache, by several threads.
    Threads,
    /// Bypassing the kernel's cache (`O_DIRECT`), by several threads.
    Direct,
    /// Bypassing the kernel's cache, with parallel reads through io_uring.
    Uring,
}

impl LocalMode {
    /// All modes with their names.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("auto", Self::Auto),
        ("advised", Self::Advised),
        ("threads", Self::Threads),
        ("direct", Self::Direct),
        ("uring", Self::Uring),
    ];

    /// Returns the mode with this name; None if there is no such mode.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}
