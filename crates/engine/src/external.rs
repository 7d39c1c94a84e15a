//! Baskets in other files: a branch may write its baskets to a file of its own (TBranch::SetFile). Only files in the same
//! folder are opened, whatever path the tree names.

use std::collections::HashMap;
use std::sync::Arc;

use branchline_format::layout::Kind;
use branchline_format::tree::TBranch;

use branchline_storage::Access;

use crate::file::File;

/// The other files that hold baskets of a tree, by the names that its branches give them.
#[derive(Debug, Default)]
pub(crate) struct Externals(HashMap<String, Arc<File>>);

impl Externals {
    /// Opens the other files. Branches whose file cannot be opened are not read, and their kind says why.
    pub(crate) fn open(file: &File, branches: &[TBranch], kinds: &mut [Kind]) -> Self {
        let mut tried: HashMap<&str, Result<Arc<File>, String>> = HashMap::new();
        for (branch, kind) in branches.iter().zip(kinds) {
            if branch.file_name.is_empty() || !matches!(kind, Kind::Data(_)) {
                continue;
            }
            let name = branch.file_name.as_str();
            if let Err(reason) = tried.entry(name).or_insert_with(|| open_in_folder(file.path(), name, file.access())) {
                let class_name = branch.element.as_ref().map_or_else(String::new, |element| element.class_name.clone());
                let reason = format!("its baskets are in another file, {name}: {reason}");
                *kind = Kind::Unsupported { class_name, reason };
            }
        }
        Self(tried.into_iter().filter_map(|(name, file)| Some((name.to_string(), file.ok()?))).collect())
    }

    /// The file of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<File>> {
        self.0.get(name)
    }

    /// All of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<File>> {
        self.0.values()
    }
}

fn open_in_folder(path: &str, name: &str, access: &Access) -> Result<Arc<File>, String> {
    let found = path_in_folder(path, name).ok_or("it names no file")?;
    File::open(&found, access).map_err(|error| format!("{found}: {}", error.message))
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
