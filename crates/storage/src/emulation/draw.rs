//! Reproducible random numbers. A seed and a key always give the same number, regardless of the order of threads.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Returns a random number that depends only on `seed` and the key `place`.
pub(super) fn drawn(seed: u64, place: impl Hash) -> u64 {
    // `new` uses fixed keys, so a seed gives the same number in every process.
    let mut hasher = DefaultHasher::new();
    (seed, place).hash(&mut hasher);
    hasher.finish()
}

/// Returns a random fraction in [0, 1) that depends only on `seed` and the key `place`.
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
