//! Baskets in other files: a branch may store its baskets in a separate file (TBranch::SetFile). Only files in the
//! tree's folder or below it are opened, whatever path the tree names.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::error::FormatError;
use branchline_format::layout::Kind;
use branchline_format::tree::TBranch;

use branchline_storage::Access;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::File;
use crate::limits::EXTERNAL_FILES_MAX;

/// The other files that hold baskets of a tree, keyed by the file names in its branches.
#[derive(Debug, Default)]
pub(crate) struct Externals(HashMap<String, Result<Arc<File>>>);

impl Externals {
    /// Opens the other files. If a file cannot be opened, its error is kept for the branches that name the file.
    pub(crate) fn open(file: &File, branches: &[TBranch], kinds: &[Kind]) -> Self {
        let of_data = branches.iter().zip(kinds).filter(|(_, kind)| matches!(kind, Kind::Data(_)));
        let names = of_data.map(|(branch, _)| branch.file_name.as_str()).filter(|name| !name.is_empty());
        Self(tried_once(file.path(), names, |name| open_in_folder(file.path(), name, file.access())))
    }

    /// Returns the file with this name, if it could be opened.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<File>> {
        self.0.get(name)?.as_ref().ok()
    }

    /// Returns the error of the file with this name, if it could not be opened.
    pub(crate) fn error(&self, name: &str) -> Option<&ReadError> {
        self.0.get(name)?.as_ref().err()
    }

    /// Returns all files that could be opened.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.0.values().filter_map(|file| file.as_ref().ok())
    }
}

/// Calls `open` once for each distinct name. The number of calls is limited, because a damaged tree may name any number
/// of files.
fn tried_once<'a, T>(
    path: &str,
    names: impl Iterator<Item = &'a str>,
    open: impl Fn(&str) -> Result<T>,
) -> HashMap<String, Result<T>> {
    let mut tried = HashMap::new();
    for name in names {
        if tried.contains_key(name) {
            continue;
        }
        let opened = if tried.len() < EXTERNAL_FILES_MAX {
            open(name)
        } else {
            let message = format!("its baskets are in more than {EXTERNAL_FILES_MAX} other files");
            Err(ReadError::from_format(path, &FormatError::damaged(0, message)))
        };
        tried.insert(name.to_owned(), opened);
    }
    tried
}

fn open_in_folder(path: &str, name: &str, access: &Access) -> Result<Arc<File>> {
    let Some(found) = path_in_folder(path, name) else {
        let message = format!("its baskets are in another file, {name:?}, which is not in the same folder");
        let error = FormatError::damaged(0, message);
        return Err(ReadError::from_format(path, &error));
    };
    let mut opened = File::open(&found, access);
    if let Err(error) = &mut opened {
        let reason = error.message.strip_prefix(&format!("{found}: ")).unwrap_or(&error.message);
        error.message = format!("its baskets are in another file, {found}: {reason}");
        // The error kind must not be `Missing`: the file that the user named exists, and only a file that it refers to
        // is missing.
        if error.kind == ReadErrorKind::Missing {
            error.kind = ReadErrorKind::Storage;
            error.hint = Some(format!("copy {name} to the folder of {path}; other branches can still be read"));
        }
    }
    opened
}

/// Returns the path of a file that another file names. The path is always in that other file's folder or below it.
fn path_in_folder(path: &str, name: &str) -> Option<String> {
    let is_below = !name.starts_with('/') && !name.contains("://") && name.split('/').all(|part| part != "..");
    let name = if is_below { name } else { name.rsplit('/').next()? };
    // Servers decode `%2e%2e` and `%2f` before they resolve a path, so escaped names are refused on servers.
    let is_escaped = path.contains("://") && name.contains('%');
    if name.is_empty() || name == ".." || is_escaped || name.contains(['?', '#', '\0']) {
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
    fn a_tree_opens_a_limited_number_of_files_each_of_them_once() {
        let names: Vec<String> = (0..EXTERNAL_FILES_MAX + 5).flat_map(|one| vec![format!("f{one}"); 2]).collect();
        let count = std::cell::Cell::new(0);
        let open = |_: &str| {
            count.set(count.get() + 1);
            Ok(())
        };
        let tried = tried_once("/data/a.root", names.iter().map(String::as_str), open);
        assert_eq!((count.get(), tried.len()), (EXTERNAL_FILES_MAX, EXTERNAL_FILES_MAX + 5));
        assert!(tried["f1004"].as_ref().unwrap_err().message.contains("more than 1000 other files"));
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
        // Servers decode escapes before they resolve `..`.
        for name in ["%2e%2e/b.root", "more/.%2E/b.root", "%2Fother%2Fb.root"] {
            assert_eq!(path_in_folder("https://host/run/a.root", name), None, "{name}");
        }
        assert_eq!(found("50%.root").unwrap(), "/data/50%.root");
    }
}
