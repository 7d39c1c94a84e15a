//! The path of an object in a file, as users write it: `directory/name`, or `directory/name;cycle`.

use branchline_format::file::TKey;

/// A path with an optional cycle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyPath<'a> {
    /// The path without the cycle.
    pub(crate) path: &'a str,
    /// The cycle; None for the newest key.
    cycle: Option<i16>,
}

impl<'a> KeyPath<'a> {
    /// Splits a path. A `;` that is not followed by a number belongs to the name.
    pub(crate) fn parse(given: &'a str) -> Self {
        let split = given.rsplit_once(';').and_then(|(path, cycle)| Some((path, cycle.parse::<i16>().ok()?)));
        match split {
            Some((path, cycle)) => Self { path, cycle: Some(cycle) },
            None => Self { path: given, cycle: None },
        }
    }

    /// Whether the cycle matches the key, assuming that the path does.
    pub(crate) fn fits(&self, key: &TKey) -> bool {
        self.cycle.is_none_or(|cycle| key.cycle == cycle)
    }
}
