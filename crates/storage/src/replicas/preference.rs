//! Which replicas this process reads first: those that are near, as whoever hands out the work knows it.

use std::sync::{Mutex, PoisonError};

/// The beginning of the locations that lie together, and how far they are.
type Ranked = (String, u32);

static RANKS: Mutex<Vec<Ranked>> = Mutex::new(Vec::new());

/// From now on files are opened at the replica with the lowest rank. A rank holds for all locations that begin with
/// its text, up to a slash: a storage element, or a folder. Of several the longest holds. Replicas without a rank come
/// last, in the order in which they are listed.
pub fn prefer_replicas(mut ranks: Vec<Ranked>) {
    ranks.sort_by_key(|(beginning, _)| std::cmp::Reverse(beginning.len()));
    *RANKS.lock().unwrap_or_else(PoisonError::into_inner) = ranks;
}

/// The rank of a location; ``element`` is its storage element.
pub(super) fn rank_of(location: &str, element: &str) -> u32 {
    let ranks = RANKS.lock().unwrap_or_else(PoisonError::into_inner);
    let holds = |beginning: &str| beginning == element || is_below(location, beginning);
    ranks.iter().find(|(beginning, _)| holds(beginning)).map_or(u32::MAX, |(_, rank)| *rank)
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
