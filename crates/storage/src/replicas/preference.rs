//! Which replicas this process reads first: its caller ranks them by their distance.

use std::sync::{Mutex, PoisonError};

/// The rank of all locations that begin with the same text, up to a slash: those at a storage element, or in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRank {
    /// How the locations begin.
    pub beginning: String,
    /// The lowest is read first.
    pub rank: u32,
}

static RANKS: Mutex<Vec<ReplicaRank>> = Mutex::new(Vec::new());

/// From now on files are opened at the replica with the lowest rank. Of several ranks for a location that with the
/// longest beginning holds. Replicas without a rank come last, in the order in which they are listed.
pub fn prefer_replicas(mut ranks: Vec<ReplicaRank>) {
    ranks.sort_by_key(|one| std::cmp::Reverse(one.beginning.len()));
    *RANKS.lock().unwrap_or_else(PoisonError::into_inner) = ranks;
}

/// The rank of a location; ``element`` is its storage element.
pub(super) fn rank_of(location: &str, element: &str) -> u32 {
    let ranks = RANKS.lock().unwrap_or_else(PoisonError::into_inner);
    let holds = |beginning: &str| beginning == element || is_below(location, beginning);
    ranks.iter().find(|one| holds(&one.beginning)).map_or(u32::MAX, |one| one.rank)
}

fn is_below(location: &str, beginning: &str) -> bool {
    let rest = location.strip_prefix(beginning);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || beginning.ends_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_beginning_ends_at_a_slash() {
        assert!(is_below("root://h:10//a", "root://h:10"));
        assert!(!is_below("root://h:1094//a", "root://h:10"));
        assert!(is_below("/data/a", "/data/") && is_below("/data/a", "/data") && is_below("/data", "/data"));
        assert!(!is_below("/data2/a", "/data"));
    }
}
