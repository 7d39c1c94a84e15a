//! How a local file is read.

/// How the bytes of a local file come into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum LocalMode {
    /// Through the kernel's cache, with announcements of what it does not have; on network mounts by several threads.
    #[default]
    Advised,
    /// Through the kernel's cache, by several threads.
    Threads,
    /// Past the kernel's cache (`O_DIRECT`), by several threads.
    Direct,
    /// Past the kernel's cache, many reads at a time through io_uring.
    Uring,
}

impl LocalMode {
    /// Each with the name that users give it.
    pub const NAMES: [(&'static str, Self); 4] =
        [("advised", Self::Advised), ("threads", Self::Threads), ("direct", Self::Direct), ("uring", Self::Uring)];

    /// The mode of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}
