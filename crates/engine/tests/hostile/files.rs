//! The files to mutate: the files in the repository and, if available, the shared test data.

use std::path::{Path, PathBuf};

/// Returns the files of uproot and ROOT in the repository, and the shared files if available.
pub fn all() -> Vec<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = files_in(&sources.join("fuzz/corpus/file"));
    assert!(!files.is_empty(), "fuzz/corpus/file has no files");
    let shared = std::env::var_os("BRANCHLINE_SHARED").map_or_else(|| sources.join("../shared"), PathBuf::from);
    let shared = files_in(&shared.join("data/root"));
    if shared.is_empty() {
        println!("the shared test data is missing (BRANCHLINE_SHARED, or ../shared beside the repository)");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "CI must have the shared test data");
    }
    files.extend(shared);
    files
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_none_or(|kind| kind == "root")).collect();
    files.sort();
    files
}

/// A temporary folder of this process, which is removed on drop.
pub struct Folder(PathBuf);

impl Folder {
    /// Creates the temporary folder.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("branchline-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("cannot create a temporary folder");
        Self(path)
    }

    /// Returns a path in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If removing fails, the leftovers in a temporary folder are harmless.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
