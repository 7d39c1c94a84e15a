//! Ranks replicas by distance, as determined by the caller. The nearest replica is read first.

use std::sync::{Mutex, PoisonError};

/// Rank of all locations with a common prefix, such as a storage element or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicaRank {
    /// Common prefix of the locations, which ends before or after a slash.
    pub beginning: String,
    /// Rank of the locations. The replica with the lowest rank is read first.
    pub rank: u32,
}

static RANKS: Mutex<Vec<ReplicaRank>> = Mutex::new(Vec::new());

/// Sets the ranks, so that files opened from now on are read from the replica with the lowest rank. If several prefixes
/// match a location, the longest prefix applies. Replicas without a rank come last, in the order in which they are
/// listed.
pub fn prefer_replicas(mut ranks: Vec<ReplicaRank>) {
    ranks.sort_by_key(|one| std::cmp::Reverse(one.beginning.len()));
    *RANKS.lock().unwrap_or_else(PoisonError::into_inner) = ranks;
}

/// Returns the rank of a location on the storage element `element`.
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
