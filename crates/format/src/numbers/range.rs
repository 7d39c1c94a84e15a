//! The range and number of bits of a Double32_t or Float16_t, declared in a title as `[xmin,xmax,nbits]`.
//!
//! ```
//! use branchline_format::numbers::range::FloatRange;
//!
//! let range = FloatRange::parse("transverse momentum [0,100,10]");
//! assert_eq!(range, Some(FloatRange::Scaled { xmin: 0.0, factor: 10.24 }));
//! assert_eq!(FloatRange::parse("[0,0,8]"), Some(FloatRange::Mantissa { bits: 8 }));
//! ```

use std::f64::consts::PI;

/// Storage form of a packed float.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FloatRange {
    /// An unsigned integer `a` that represents the value `a / factor + xmin`.
    Scaled {
        /// Minimum of the value range.
        xmin: f64,
        /// Number of integer steps per unit.
        factor: f64,
    },
    /// An exponent byte and a mantissa of `bits` bits (TBufferFile::ReadWithNbits).
    Mantissa {
        /// Number of mantissa bits.
        bits: u32,
    },
}

impl FloatRange {
    /// Parse the range in the title of a member or leaf, with the rules of GetRange in TStreamerElement. Of the first
    /// two brackets, the first bracket with a comma is used. A bit count below 2 or above 32 is replaced by 32. An
    /// empty range with a bit count below 15 declares a mantissa of that size.
    pub fn parse(title: &str) -> Option<Self> {
        let mut brackets = title.split('[').skip(1).take(2).filter_map(|rest| rest.split_once(']'));
        let inside = brackets.find_map(|(inside, _)| inside.contains(',').then_some(inside))?;
        let mut parts = inside.splitn(3, ',');
        let xmin = parse_bound(parts.next()?);
        let xmax = parse_bound(parts.next()?);
        let bits = parts.next().and_then(|text| text.trim().parse::<u32>().ok());
        let bits = bits.filter(|bits| (2..=32).contains(bits)).unwrap_or(32);
        if xmin >= xmax {
            return (bits < 15).then_some(Self::Mantissa { bits });
        }
        let steps = if bits < 32 { f64::from(1u32 << bits) } else { f64::from(u32::MAX) };
        Some(Self::Scaled { xmin, factor: steps / (xmax - xmin) })
    }

    /// Size of a stored value in bytes.
    pub fn stored_size(self) -> usize {
        match self {
            Self::Scaled { .. } => 4,
            Self::Mantissa { .. } => 3,
        }
    }
}

/// Parse a bound like GetRange in TStreamerElement: a numeric literal, or one of pi, 2pi, 2*pi, twopi, pi/2 and pi/4,
/// with an optional minus sign. Returns 0 for any other string.
fn parse_bound(text: &str) -> f64 {
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_lowercase();
    if !text.contains("pi") {
        return text.parse().unwrap_or(0.0);
    }
    let value = if ["2pi", "2*pi", "twopi"].iter().any(|name| text.contains(name)) {
        2.0 * PI
    } else if text.contains("pi/2") {
        PI / 2.0
    } else if text.contains("pi/4") {
        PI / 4.0
    } else {
        PI
    };
    if text.contains('-') {
        -value
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_gives_minimum_and_factor() {
        let range = FloatRange::parse("energy [0., 10, 8]");
        assert_eq!(range, Some(FloatRange::Scaled { xmin: 0.0, factor: 25.6 }));
    }

    #[test]
    fn no_bits_mean_thirty_two() {
        let expected = FloatRange::Scaled { xmin: -PI, factor: f64::from(u32::MAX) / (2.0 * PI) };
        assert_eq!(FloatRange::parse("[-pi,pi]"), Some(expected));
    }

    #[test]
    fn an_empty_range_with_few_bits_is_a_mantissa() {
        assert_eq!(FloatRange::parse("[0.,0.,10]"), Some(FloatRange::Mantissa { bits: 10 }));
        assert_eq!(FloatRange::parse("[0,0,20]"), None);
    }

    #[test]
    fn counters_are_no_ranges() {
        assert_eq!(FloatRange::parse("[fN] values"), None);
        assert_eq!(FloatRange::parse("plain comment"), None);
        assert!(FloatRange::parse("[fN] values [0,1,8]").is_some());
    }
}
