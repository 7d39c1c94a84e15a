//! Numbers drawn from a seed: the same seed and place give the same number, in whatever order threads come.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A number that depends on nothing but what is given.
pub(super) fn drawn(seed: u64, place: impl Hash) -> u64 {
    // The keys of `new` are fixed, so that a seed means the same in every process.
    let mut hasher = DefaultHasher::new();
    (seed, place).hash(&mut hasher);
    hasher.finish()
}

/// The same as a part of one: from 0 to below 1.
pub(super) fn drawn_share(seed: u64, place: impl Hash) -> f64 {
    (drawn(seed, place) >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_another_seed_others() {
        assert_eq!(drawn(4, ("f.root", 7)), drawn(4, ("f.root", 7)));
        assert_ne!(drawn(4, ("f.root", 7)), drawn(5, ("f.root", 7)));
        assert_ne!(drawn(4, ("f.root", 7)), drawn(4, ("f.root", 8)));
        let mean = (0..1000).map(|place| drawn_share(1, place)).sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "{mean}");
    }
}
