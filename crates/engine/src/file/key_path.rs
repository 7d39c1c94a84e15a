//! The path of an object in a file, as users give it: `directory/name`, or `directory/name;cycle`.

use branchline_format::file::TKey;

/// A path, and the cycle that it names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPath<'a> {
    /// The path without the cycle.
    pub(crate) path: &'a str,
    /// None for the newest key.
    cycle: Option<i16>,
}

impl<'a> KeyPath<'a> {
    /// Splits a path. A `;` that no number follows belongs to the name.
    pub(crate) fn parse(given: &'a str) -> Self {
        let split = given.rsplit_once(';').and_then(|(path, cycle)| Some((path, cycle.parse::<i16>().ok()?)));
        match split {
            Some((path, cycle)) => Self { path, cycle: Some(cycle) },
            None => Self { path: given, cycle: None },
        }
    }

    /// Whether a key with this path has the cycle, too.
    pub(crate) fn fits(&self, key: &TKey) -> bool {
        self.cycle.is_none_or(|cycle| key.cycle == cycle)
    }
}
