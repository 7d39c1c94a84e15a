//! Parses throttles such as `latency=63ms,bandwidth=7.4MB/s,requests=100/s,jitter=5ms,seed=4`.

use std::str::FromStr;
use std::time::Duration;

use super::quantities::{bytes_per_second, per_second, time};

/// Properties of an emulated link to a storage system.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Throttle {
    /// Round-trip time.
    pub latency: Duration,
    /// Maximum random extra latency, drawn for every request.
    pub jitter: Duration,
    /// Bandwidth in each direction, in bytes per second, shared by all connections; None for no limit.
    pub bytes_per_second: Option<f64>,
    /// Maximum number of requests per second; None for no limit.
    pub requests_per_second: Option<f64>,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl FromStr for Throttle {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut throttle = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let known = match name.trim() {
                "latency" => time(value).map(|latency| throttle.latency = latency),
                "jitter" => time(value).map(|jitter| throttle.jitter = jitter),
                "bandwidth" => bytes_per_second(value).map(|rate| throttle.bytes_per_second = Some(rate)),
                "requests" => per_second(value).map(|rate| throttle.requests_per_second = Some(rate)),
                "seed" => value.trim().parse().ok().map(|seed| throttle.seed = seed),
                _ => None,
            };
            known.ok_or_else(|| wrong(part))?;
        }
        Ok(throttle)
    }
}

fn wrong(part: &str) -> String {
    format!(
        "a throttle cannot have {part:?}; it is written like latency=63ms,bandwidth=7.4MB/s,requests=100/s,\
         jitter=5ms,seed=4, where each part is optional"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_throttle_is_read_from_words() {
        let throttle: Throttle = "latency=63ms, bandwidth=7.4MB/s,requests=100/s,jitter=5ms,seed=4".parse().unwrap();
        assert_eq!((throttle.latency, throttle.jitter), (Duration::from_millis(63), Duration::from_millis(5)));
        assert_eq!((throttle.bytes_per_second, throttle.requests_per_second), (Some(7.4e6), Some(100.0)));
        assert_eq!(throttle.seed, 4);
        assert_eq!("".parse::<Throttle>().unwrap(), Throttle::default());
    }

    #[test]
    fn wrong_words_are_named() {
        for wrong in ["latency", "latency=x", "speed=7MB/s", "seed=-1", "bandwidth=0MB/s"] {
            let error = wrong.parse::<Throttle>().unwrap_err();
            assert!(error.contains(wrong) && error.contains("latency=63ms"), "{error}");
        }
    }
}
