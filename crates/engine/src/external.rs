//! Baskets in other files: a branch may write its baskets to a file of its own (TBranch::SetFile). Only files in the
//! same folder are opened, whatever path the tree names.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::error::FormatError;
use branchline_format::layout::Kind;
use branchline_format::tree::TBranch;

use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;

/// The other files that hold baskets of a tree, by the names that its branches give them.
#[derive(Debug, Default)]
pub(crate) struct Externals(HashMap<String, Result<Arc<File>>>);

impl Externals {
    /// Opens the other files. The error of a file that cannot be opened is kept for its branches.
    pub(crate) fn open(file: &File, branches: &[TBranch], kinds: &[Kind]) -> Self {
        let mut tried: HashMap<String, Result<Arc<File>>> = HashMap::new();
        for (branch, kind) in branches.iter().zip(kinds) {
            let name = &branch.file_name;
            if !name.is_empty() && matches!(kind, Kind::Data(_)) && !tried.contains_key(name) {
                tried.insert(name.clone(), open_in_folder(file.path(), name, file.access()));
            }
        }
        Self(tried)
    }

    /// The file of this name, if it could be opened.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<File>> {
        self.0.get(name)?.as_ref().ok()
    }

    /// Why the file of this name could not be opened.
    pub(crate) fn error(&self, name: &str) -> Option<&ReadError> {
        self.0.get(name)?.as_ref().err()
    }

    /// All that could be opened.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.0.values().filter_map(|file| file.as_ref().ok())
    }
}

fn open_in_folder(path: &str, name: &str, access: &Access) -> Result<Arc<File>> {
    let Some(found) = path_in_folder(path, name) else {
        let error = FormatError::damaged(0, format!("its baskets are in another file, {name:?}, which names no file"));
        return Err(ReadError::from_format(path, &error));
    };
    let mut opened = File::open(&found, access);
    if let Err(error) = &mut opened {
        let reason = error.message.strip_prefix(&format!("{found}: ")).unwrap_or(&error.message);
        error.message = format!("its baskets are in another file, {found}: {reason}");
        // The file that the user named is there: what it refers to is what the storage lacks.
        if error.kind == ReadErrorKind::Missing {
            error.kind = ReadErrorKind::Storage;
            error.hint = Some(format!("copy {name} into the folder of {path}; other branches still read"));
        }
    }
    opened
}

/// The path of a file that another one names: always in the same folder or below it.
fn path_in_folder(path: &str, name: &str) -> Option<String> {
    let is_below = !name.starts_with('/') && !name.contains("://") && name.split('/').all(|part| part != "..");
    let name = if is_below { name } else { name.rsplit('/').next()? };
    if name.is_empty() || name == ".." || name.contains(['?', '#', '\0']) {
        return None;
    }
    Some(match path.split_once(['?', '#']).map_or(path, |(place, _)| place).rsplit_once('/') {
        Some((folder, _)) => format!("{folder}/{name}"),
        None => name.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_a_file_in_the_same_folder() {
        let found = |path, name| path_in_folder(path, name).unwrap();
        assert_eq!(found("/data/run/a.root", "b.root"), "/data/run/b.root");
        assert_eq!(found("/data/run/a.root", "more/b.root"), "/data/run/more/b.root");
        assert_eq!(found("root://host//run/a.root?token=x/y", "b.root"), "root://host//run/b.root");
        assert_eq!(found("a.root", "b.root"), "b.root");
    }

    #[test]
    fn no_name_leads_elsewhere() {
        let found = |name| path_in_folder("/data/a.root", name);
        for name in ["/other/b.root", "../b.root", "more/../../b.root", "https://host/b.root", "root://host//x/b.root"]
        {
            assert_eq!(found(name).unwrap(), "/data/b.root", "{name}");
        }
        for name in ["", "/", "..", "/other/", "../..", "b.root?x=https://host/"] {
            assert_eq!(found(name), None, "{name}");
        }
    }
}
