//! Parses fault plans such as `stall,reset,every=50,seed=4`, and decides according to a plan which requests fail.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::draw::drawn;
use super::quantities::time;

/// Kind of an injected fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// The response is delayed, by default until the request times out.
    Stall,
    /// The response never arrives, as from a network mount whose server is down.
    Hang,
    /// The connection is cut.
    Reset,
    /// The response is truncated.
    Short,
    /// One byte of the response is changed without an error.
    Wrong,
    /// The file does not exist.
    Missing,
}

impl FaultKind {
    /// All kinds of faults.
    pub const ALL: [Self; 6] = [Self::Stall, Self::Hang, Self::Reset, Self::Short, Self::Wrong, Self::Missing];

    /// Name of the kind in a fault plan.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stall => "stall",
            Self::Hang => "hang",
            Self::Reset => "reset",
            Self::Short => "short",
            Self::Wrong => "wrong",
            Self::Missing => "missing",
        }
    }
}

/// Which faults are injected, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// Kinds of faults; one kind is drawn for each failing request.
    pub kinds: Vec<FaultKind>,
    /// Size of a block of consecutive requests. One request of each block fails, chosen at random.
    pub every: u64,
    /// Number of requests that succeed before the first fault.
    pub after: u64,
    /// Duration of a stall; None for the silence timeout, so that the request times out.
    pub stall: Option<Duration>,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl FromStr for FaultPlan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self { kinds: Vec::new(), every: 1, after: 0, stall: None, seed: 0 };
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let known = match part.split_once('=') {
                None => FaultKind::ALL.iter().find(|kind| kind.name() == part).map(|kind| plan.kinds.push(*kind)),
                Some(("every", value)) => value.parse().ok().filter(|every| *every > 0).map(|every| plan.every = every),
                Some(("after", value)) => value.parse().ok().map(|after| plan.after = after),
                Some(("for", value)) => time(value).map(|stall| plan.stall = Some(stall)),
                Some(("seed", value)) => value.parse().ok().map(|seed| plan.seed = seed),
                Some(_) => None,
            };
            known.ok_or_else(|| wrong(&format!("cannot have {part:?}")))?;
        }
        if plan.kinds.is_empty() {
            return Err(wrong("names no kind"));
        }
        Ok(plan)
    }
}

fn wrong(what: &str) -> String {
    let kinds = FaultKind::ALL.map(FaultKind::name).join(", ");
    format!(
        "a fault {what}; it is written like stall,every=50,seed=4: one or more of {kinds}, and optionally every=N, \
         after=N, for=TIME and seed=N"
    )
}

impl FaultPlan {
    /// Returns the fault to inject into a request to a file or connection; None if the request succeeds. `number` is
    /// the index of the request, starting at 0. Exactly one request fails in each block of `every` requests.
    pub(super) fn hit(&self, place: &str, number: u64) -> Option<FaultKind> {
        // Only the file name and its parent folder are used, so that a seed gives the same faults wherever the files
        // are.
        let place = place.rmatch_indices('/').nth(1).map_or(place, |(slash, _)| &place[slash + 1..]);
        let number = number.checked_sub(self.after)?;
        let (round, position) = (number / self.every, number % self.every);
        if drawn(self.seed, (place, round)) % self.every != position {
            return None;
        }
        let which = drawn(self.seed, ("kind", place, round)) % self.kinds.len() as u64;
        self.kinds.get(which as usize).copied()
    }
}

/// Request counters of all files under one plan. The counters continue when a file is reopened; otherwise a request
/// that failed once would fail again on every retry.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_place: Mutex<HashMap<String, Arc<AtomicU64>>>,
}

impl Requests {
    /// Returns this process's request counters for the fault plan `words`.
    pub(super) fn of(words: &str) -> Arc<Self> {
        static ALL: Mutex<Option<HashMap<String, Arc<Requests>>>> = Mutex::new(None);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.get_or_insert_default().entry(words.to_owned()).or_default())
    }

    /// Returns the request counter of a file or connection.
    pub(super) fn at(&self, place: &str) -> Arc<AtomicU64> {
        let mut places = self.by_place.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(place.to_owned()).or_default())
    }
}

/// Returns the index of the next request, and increments the counter.
pub(super) fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn of_every_n_requests_one_is_hit() {
        let plan: FaultPlan = "stall,reset,every=50,after=7,seed=4".parse().unwrap();
        let hits: Vec<_> = (0..507).map(|number| plan.hit("f.root", number)).collect();
        assert!(hits[..7].iter().all(Option::is_none));
        for round in hits[7..].chunks(50) {
            assert_eq!(round.iter().flatten().count(), 1);
        }
        let kinds: std::collections::HashSet<_> = hits.iter().flatten().collect();
        assert_eq!(kinds.len(), 2);
        let again: Vec<_> = (0..507).map(|number| plan.hit("f.root", number)).collect();
        let other: Vec<_> = (0..507).map(|number| plan.hit("g.root", number)).collect();
        assert_eq!(hits, again);
        assert_ne!(hits, other);
    }

    #[test]
    fn wrong_words_are_named() {
        for (text, named) in
            [("", "names no kind"), ("every=5", "names no kind"), ("stal", "\"stal\""), ("stall,every=0", "every=0")]
        {
            let error = text.parse::<FaultPlan>().unwrap_err();
            assert!(error.contains(named) && error.contains("stall,every=50,seed=4"), "{error}");
        }
        assert_eq!("hang,for=2s".parse::<FaultPlan>().unwrap().stall, Some(Duration::from_secs(2)));
    }
}
