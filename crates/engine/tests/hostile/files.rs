//! The files to change: those that come with the sources and, where they are, the shared ones.

use std::path::{Path, PathBuf};

/// Files of uproot and ROOT that come with the sources; the shared ones are added where they are.
pub fn all() -> Vec<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = files_in(&sources.join("fuzz/corpus/file"));
    assert!(!files.is_empty(), "the files in fuzz/corpus/file come with the sources");
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

/// A folder of this process that goes with it.
pub struct Folder(PathBuf);

impl Folder {
    /// A new folder.
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("branchline-hostile-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder can be made");
        Self(path)
    }

    /// A place in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left in a temporary folder harms nobody.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
