//! The range and parse_bound of bits that a Double32_t or Float16_t is stored with, declared as `[xmin,xmax,nbits]`.

use std::f64::consts::PI;

/// How a truncated float is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FloatRange {
    /// An unsigned integer `a`, whose value is `a / factor + xmin`.
    Scaled {
        /// Lower end of the range.
        xmin: f64,
        /// Steps per unit.
        factor: f64,
    },
    /// An exponent byte and a mantissa of this many bits (TBufferFile::ReadWithNbits).
    Mantissa {
        /// Bits of the mantissa.
        bits: u32,
    },
}

impl FloatRange {
    /// Finds a range in the title of a member or leaf, by the rules of TStreamerElement's GetRange: the first bracket
    /// with a comma in it, of the first two; fewer than 2 or more than 32 bits mean 32; an empty range with fewer than
    /// 15 bits means a mantissa of that size.
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

    /// Bytes of one stored value.
    pub fn stored_size(self) -> usize {
        match self {
            Self::Scaled { .. } => 4,
            Self::Mantissa { .. } => 3,
        }
    }
}

/// A bound as TStreamerElement's GetRange reads it: a literal, or one of pi, 2pi, 2*pi, twopi, pi/2 and pi/4, with a
/// sign. Anything else is 0.
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
