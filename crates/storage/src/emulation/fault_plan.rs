//! Which faults a storage injects, and when: `stall,reset,every=50,seed=4`.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::draw::drawn;
use super::quantities::time;

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Nothing comes for a time, and then the end of the wait.
    Stall,
    /// Nothing comes ever, as from a dead mount.
    Hang,
    /// The connection is cut.
    Reset,
    /// The answer ends too early.
    Short,
    /// One byte of the answer is changed without an error.
    Wrong,
    /// The file is gone.
    Missing,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Stall, Self::Hang, Self::Reset, Self::Short, Self::Wrong, Self::Missing];

    /// The word for it.
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

/// The kinds of faults, how often they happen, and the seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FaultPlan {
    /// One of these is drawn each time.
    pub kinds: Vec<FaultKind>,
    /// One of this number of requests fails; which one is random.
    pub every: u64,
    /// This number of requests succeeds first.
    pub after: u64,
    /// How long a stall lasts, if not as long as a server may be silent.
    pub stall: Option<Duration>,
    /// The seed of the random numbers.
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
        "a fault {what}; it is written like stall,every=50,seed=4: one or several of {kinds}, and every=N, after=N, \
         for=TIME and seed=N, each of which may be left out"
    )
}

impl FaultPlan {
    /// The fault of a request of this number, counted from 0, for this file or connection. Of each `every` requests
    /// exactly one is hit.
    pub(super) fn hit(&self, place: &str, number: u64) -> Option<FaultKind> {
        // Name and folder of a file: where these are does not matter to a seed.
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

/// How many requests each file has seen under one plan. They go on where they were when a file is opened again: else
/// what failed once would fail for ever.
#[derive(Debug, Default)]
pub(super) struct Requests {
    by_place: Mutex<HashMap<String, Arc<AtomicU64>>>,
}

impl Requests {
    /// The requests of this process under a plan in these words.
    pub(super) fn of(words: &str) -> Arc<Self> {
        static ALL: Mutex<Option<HashMap<String, Arc<Requests>>>> = Mutex::new(None);
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.get_or_insert_default().entry(words.to_owned()).or_default())
    }

    /// The counter of a file or connection.
    pub(super) fn at(&self, place: &str) -> Arc<AtomicU64> {
        let mut places = self.by_place.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(place.to_owned()).or_default())
    }
}

/// The number of the next request.
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
