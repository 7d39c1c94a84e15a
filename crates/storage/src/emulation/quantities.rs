//! Parses times, rates and bandwidths: `63ms`, `100/s`, `7.4MB/s`.

use std::time::Duration;

/// Maximum time that is accepted, in seconds.
const SECONDS_MAX: f64 = 1e6;

/// Parses a time such as `63ms`, `1.5s`, `200us` or `2min`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let unit_s = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "" if number == 0.0 => 1.0,
        _ => return None,
    };
    let seconds = number * unit_s;
    (seconds <= SECONDS_MAX).then(|| Duration::from_secs_f64(seconds))
}

/// Parses a bandwidth such as `7.4MB/s`, `1Gb/s` (bits) or `500KiB/s`, in bytes per second.
pub(super) fn bytes_per_second(text: &str) -> Option<f64> {
    let (number, unit) = number_and_unit(text.strip_suffix("/s")?)?;
    let unit_bytes = match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        "kb" | "kbit" => 1e3 / 8.0,
        "Mb" | "Mbit" => 1e6 / 8.0,
        "Gb" | "Gbit" => 1e9 / 8.0,
        _ => return None,
    };
    Some(number * unit_bytes).filter(|rate| *rate >= 1.0)
}

/// Parses a rate such as `100/s` or `100`. The minimum rate is one per `SECONDS_MAX` seconds.
pub(super) fn per_second(text: &str) -> Option<f64> {
    let (number, unit) = number_and_unit(text.strip_suffix("/s").unwrap_or(text))?;
    (unit.is_empty() && number >= 1.0 / SECONDS_MAX).then_some(number)
}

fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    number.is_finite().then_some((number, unit.trim_start()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read() {
        assert_eq!(time("63ms"), Some(Duration::from_millis(63)));
        assert_eq!(time(" 1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!((time("200us"), time("0")), (Some(Duration::from_micros(200)), Some(Duration::ZERO)));
        assert_eq!((bytes_per_second("7.4MB/s"), bytes_per_second("1Gb/s")), (Some(7.4e6), Some(1.25e8)));
        assert_eq!((per_second("100/s"), per_second("2.5")), (Some(100.0), Some(2.5)));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        for wrong in ["", "63", "ms", "-1s", "1e9s", "99999999s", "1.2.3s", "inf s", "1 h"] {
            assert_eq!(time(wrong), None, "{wrong}");
        }
        for wrong in ["7.4MB", "0MB/s", "MB/s", "1XB/s", "/s", "7 m/s"] {
            assert_eq!(bytes_per_second(wrong), None, "{wrong}");
        }
        assert_eq!((per_second("0"), per_second("x/s"), per_second("5MB/s")), (None, None, None));
        // These rates are too low: the time between two requests would exceed the maximum time.
        assert_eq!((per_second("0.0000001/s"), per_second(&format!("0.{}1", "0".repeat(100)))), (None, None));
    }
}
