//! Automatic axis limits: round numbers that enclose the entries, as ROOT chooses for histograms without limits
//! (THLimitsFinder).

/// Maximum absolute decimal exponent of the bin width. Beyond this exponent, limits are not rounded.
const EXPONENT_MAX: i32 = 200;
/// Maximum distance of the lower limit from 0, in bin widths. Beyond this distance, limits are not rounded.
const WIDTHS_MAX: f64 = 1e9;

/// Number of bins and limits chosen for an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Found {
    pub(crate) bins: usize,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// Choose an axis with about `bins` bins for values between two limits (THLimitsFinder::FindGoodLimits). `is_whole`
/// requests an integer bin width.
pub(crate) fn found_limits(bins: usize, (mut low, mut high): (f64, f64), is_whole: bool) -> Found {
    if !(low.is_finite() && high.is_finite()) {
        (low, high) = (0.0, 0.0);
    }
    if low >= high {
        (low, high) = (low - 1.0, high + 1.0);
    }
    let count = bins.max(1) as f64;
    let margin = if is_whole { 5.0 * (high - low) / count } else { 0.1 * (high - low) };
    let wide_low = if low >= 0.0 { (low - margin).max(0.0) } else { low - margin };
    let wide_high = if high <= 0.0 { (high + margin).min(0.0) } else { high + margin };
    let (round_low, round_high, width) = rounded(wide_low, wide_high, bins);
    if width <= 0.0 || width > 1e39 {
        (low, high) = (-1.0, 1.0);
    } else {
        let least = 0.01 * (high - low);
        (low, high) = (round_low.min(low - least), round_high.max(high + least));
    }
    match is_whole {
        true => whole(bins.max(1), (low, high), (wide_low, wide_high)),
        false => Found { bins, low, high },
    }
}

/// Round the limits to multiples of a bin width. Returns the limits and the bin width, which is 0 on failure
/// (THLimitsFinder::Optimize).
fn rounded(low: f64, high: f64, bins: usize) -> (f64, f64, f64) {
    let high = if low == high { low + 1.0 } else { high };
    let mut parts = bins.max(2);
    loop {
        let wanted = (high - low) / parts as f64;
        if !(wanted > 0.0 && wanted < f64::from(f32::MAX)) {
            return (0.0, 0.0, 0.0);
        }
        let exponent = wanted.log10() as i32;
        if exponent.abs() > EXPONENT_MAX {
            return (0.0, 1.0, 0.01);
        }
        let mut width = round_width(wanted, exponent);
        if (low / width).abs() > WIDTHS_MAX {
            return (low, high, width);
        }
        let below = (low / width).trunc() - f64::from(low < 0.0);
        let ratio = high / width + 1.00001;
        let above = ratio.trunc() - f64::from(ratio < 0.0);
        let (outer_low, outer_high) = (width * below, width * above);
        let found = above - below;
        if bins > 5 && 2.0 * found == bins as f64 {
            parts += 1;
            continue;
        }
        if bins <= 1 && found != 1.0 {
            width *= 2.0;
        }
        let least = width * 0.0001;
        let inner_low = if low - outer_low >= least { outer_low + width } else { outer_low };
        let inner_high = if outer_high - high >= least { outer_high - width } else { outer_high };
        return match inner_low < inner_high {
            true => (inner_low, inner_high, width),
            false => (outer_low, outer_high, width),
        };
    }
}

/// Round `wanted` up to 1, 2 or 5 times a power of ten.
fn round_width(wanted: f64, exponent: i32) -> f64 {
    let exponent = f64::from(if wanted <= 1.0 { exponent - 1 } else { exponent });
    let digits = wanted * 10_f64.powf(-exponent) - 1e-10;
    let (digits, exponent) = match digits {
        digits if digits <= 1.0 => (1.0, exponent),
        digits if digits <= 2.0 => (2.0, exponent),
        digits if digits <= 5.0 => (5.0, exponent),
        _ => (1.0, exponent + 1.0),
    };
    digits * 10_f64.powf(exponent)
}

/// Choose integer limits around the given limits, and bins with an integer width (THLimitsFinder::OptimizeLimits).
fn whole(bins: usize, (low, high): (f64, f64), (wide_low, wide_high): (f64, f64)) -> Found {
    let mut low = if low < 0.0 { low.floor() } else { low.trunc() };
    let mut high = match high {
        0.0 => 1.0,
        high if high > 0.0 => high.ceil(),
        high => high.trunc(),
    };
    if low >= high {
        high = low + 1.0;
    }
    let width = ((high - low) / bins as f64).trunc().max(1.0);
    let mut count = ((high - low) / width).trunc();
    if low + count * width < wide_high {
        count += 1.0;
        high = low + count * width;
    }
    if low > wide_low {
        count += 1.0;
        low = high - count * width;
    }
    Found { bins: count as usize, low, high }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_root_finds() {
        // Expected values: axes of TH1D h("", "", bins, 0, 0) in ROOT 6.40, after filling these minimum and maximum
        // values and calling BufferEmpty.
        let cases = [
            (20, -1.467, 2.344, false, (20, -1.8, 2.6)),
            (100, 0.0, 99.0, false, (100, -0.99, 108.0)),
            (10, 3.0, 3.0, false, (10, 1.98, 4.02)),
            (1, 0.5, 7.5, false, (1, 0.0, 10.0)),
            (3, -4.0, -1.0, false, (3, -4.03, -0.97)),
            (5, 1e-08, 3e-08, false, (5, 9.8e-09, 3.02e-08)),
            (50, -1000000000000.0, 1000000000000.0, false, (50, -1200000000000.0, 1200000000000.0)),
            (64, 1000000000.0, 1000000003.0, false, (64, 999999999.7, 1000000003.3)),
            (10, 0.0, 29.0, true, (11, -1.0, 43.0)),
            (100, -7.0, 3.0, true, (12, -8.0, 4.0)),
            (7, 2.0, 1000.0, true, (8, -8.0, 1712.0)),
            (12, -20.0, -3.0, true, (14, -27.0, 1.0)),
            (2, -0.025480238, -0.0017283749999999973, false, (2, -0.025717756629999998, 0.0)),
            (100, -8778.778961738, -2476.061818262, false, (100, -9400.0, -1900.0)),
            (6, -0.001904433, -0.0009427430000000001, false, (6, -0.002, -0.0009331261000000001)),
            (2, -1.5021e-05, 6.725499999999999e-05, false, (2, -1.584376e-05, 6.807775999999999e-05)),
            (2, 69024.94217145, 223057.65226228902, false, (2, 67484.61507054162, 224597.9793631974)),
            (2, -4.606221656, 17.155625361000002, false, (2, -20.0, 20.0)),
            (100, -9.745475107, -4.177824222000001, false, (100, -10.3, -3.7)),
            (6, -7.5675e-05, 8.5565e-05, false, (6, -7.72874e-05, 0.00010000000000000002)),
            (2, 1.9371e-05, 4.4925999999999996e-05, false, (2, 1.911545e-05, 4.518155e-05)),
            (6, -9.266382505, -8.634779906999999, false, (6, -9.27269853098, -8.6)),
            (33, 0.183200222, 2.427641861, false, (33, 0.0, 2.6)),
            (6, -2.585837964, 5.692903412, false, (6, -2.66862537776, 6.0)),
        ];
        for (bins, low, high, is_whole, expected) in cases {
            let found = found_limits(bins, (low, high), is_whole);
            let is_near = |one: f64, two: f64| (one - two).abs() <= 1e-12 * one.abs().max(two.abs());
            assert_eq!(found.bins, expected.0, "{bins} {low} {high}");
            assert!(is_near(found.low, expected.1) && is_near(found.high, expected.2), "{bins} {low} {high} {found:?}");
        }
    }

    #[test]
    fn any_values_have_limits() {
        let ends = [f64::NAN, f64::INFINITY, f64::MIN, f64::MAX, -1e300, 5e-324, 0.0, -0.0, 1e-300, 3e9];
        for low in ends {
            for high in ends {
                for bins in [0, 1, 2, 5, 100, 100_000] {
                    for is_whole in [false, true] {
                        found_limits(bins, (low, high), is_whole);
                    }
                }
            }
        }
    }
}
