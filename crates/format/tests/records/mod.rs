//! The tree records of all available test files.

use std::path::{Path, PathBuf};

use branchline_format::classes::streamer::ClassInfos;
use branchline_format::compress::Decompressor;
use branchline_format::file::directory::Directories;
use branchline_format::file::loaded_bytes::{DecodeError, LoadedBytes};
use branchline_format::file::{read_header, read_key_at, read_object};

/// Paths of test files of all kinds.
pub fn files() -> Vec<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("BRANCHLINE_SHARED").map_or_else(|| sources.join("../shared"), PathBuf::from);
    let mut files = Vec::new();
    for folder in [sources.join("fuzz/corpus/file"), shared.join("data/root")] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        files.extend(entries.filter(|path| path.is_file()));
    }
    files.sort();
    assert!(!files.is_empty(), "the files in fuzz/corpus/file come with the sources");
    files
}

/// A tree's record.
pub struct TreeRecord {
    pub name: String,
    pub class_name: String,
    pub key_size: u64,
    pub plain: Vec<u8>,
}

/// Read the records of all trees in a file, and the file's streamer infos. Fails for files that are damaged on purpose.
pub fn trees_in(path: &Path) -> Result<(ClassInfos, Vec<TreeRecord>), DecodeError> {
    let loaded = LoadedBytes::whole(std::fs::read(path).unwrap().into());
    let header = read_header(&loaded)?;
    let mut decompressor = Decompressor::new();
    let mut infos = ClassInfos::default();
    if header.seek_info > 0 {
        let key = read_key_at(&loaded, header.seek_info)?;
        infos = ClassInfos::read(&read_object(&loaded, &key, &mut decompressor)?, key.key_size)?;
    }
    let mut directories = Directories::new(&header, loaded.file_size());
    directories.read_below("", &loaded)?;
    let mut trees = Vec::new();
    for entry in directories.entries_below("", &loaded)? {
        let key = entry.key;
        if !(matches!(key.class_name.as_str(), "TTree" | "TNtuple" | "TNtupleD")
            || infos.inherits(&key.class_name, "TTree"))
        {
            continue;
        }
        let plain = read_object(&loaded, &key, &mut decompressor)?;
        trees.push(TreeRecord { name: entry.path, class_name: key.class_name, key_size: key.key_size, plain });
    }
    Ok((infos, trees))
}
