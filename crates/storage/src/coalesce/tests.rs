//! Tests `coalesce` with examples, and checks properties that hold for any requested ranges.

use super::*;

fn ranges(pairs: &[(u64, u64)]) -> Vec<ByteRange> {
    pairs.iter().map(|&(offset, length)| ByteRange::new(offset, length)).collect()
}

#[test]
fn near_ranges_are_joined_and_far_ones_stay_apart() {
    let plan = coalesce(&ranges(&[(0, 10), (15, 10), (100, 10)]), 5, 1000);
    assert_eq!(plan.ranges, ranges(&[(0, 25), (100, 10)]));
    assert_eq!(plan.placements[1], Placement { range: 0, offset: 15, length: 10 });
    assert_eq!(plan.gap_bytes, 5);
}

#[test]
fn any_order_gives_the_same_ranges() {
    let plan = coalesce(&ranges(&[(20, 10), (0, 10), (10, 10)]), 0, 1000);
    assert_eq!(plan.ranges, ranges(&[(0, 30)]));
    assert_eq!(plan.placements.iter().map(|placement| placement.offset).collect::<Vec<_>>(), [20, 0, 10]);
}

#[test]
fn repeated_and_overlapping_ranges_are_read_once() {
    let plan = coalesce(&ranges(&[(0, 10), (0, 10), (5, 10), (2, 3)]), 0, 1000);
    assert_eq!(plan.ranges, ranges(&[(0, 15)]));
    assert_eq!(plan.gap_bytes, 0);
}

#[test]
fn ranges_are_joined_up_to_the_largest_size_and_not_beyond() {
    let wanted = ranges(&[(0, 10), (10, 10), (20, 10)]);
    assert_eq!(coalesce(&wanted, 0, 20).ranges, ranges(&[(0, 20), (20, 10)]));
    assert_eq!(coalesce(&wanted, 0, 5).ranges, wanted);
}

#[test]
fn a_short_range_inside_one_above_the_largest_size_is_not_read_again() {
    let plan = coalesce(&ranges(&[(0, 5), (0, 1000), (990, 10)]), 0, 100);
    assert_eq!(plan.ranges, ranges(&[(0, 1000)]));
}

#[test]
fn nothing_wanted_is_nothing_read() {
    assert_eq!(coalesce(&[], 100, 100), Plan::default());
}

#[test]
fn ranges_behind_the_largest_offset_overflow_nothing() {
    let wanted = ranges(&[(u64::MAX, u64::MAX), (u64::MAX - 1, 2), (0, u64::MAX), (1, u64::MAX)]);
    let plan = coalesce(&wanted, u64::MAX, u64::MAX);
    check(&wanted, &plan, u64::MAX, u64::MAX).unwrap();
}

/// Checks the properties that every plan must have.
fn check(wanted: &[ByteRange], plan: &Plan, gap_bytes: u64, max_bytes: u64) -> Result<(), String> {
    let end = |range: &ByteRange| u128::from(range.offset) + u128::from(range.length);
    if plan.placements.len() != wanted.len() {
        return Err("not every requested range has a placement".into());
    }
    for (range, placement) in wanted.iter().zip(&plan.placements) {
        let joined = &plan.ranges[placement.range];
        let placed_right = joined.offset + placement.offset == range.offset && placement.length == range.length;
        if !placed_right || end(joined) < end(range) {
            return Err(format!("{range:?} is not covered by {joined:?}"));
        }
    }
    if !plan.ranges.windows(2).all(|pair| pair[0].offset <= pair[1].offset) {
        return Err("the ranges are not ordered".into());
    }
    let mut waste = 0;
    for (index, joined) in plan.ranges.iter().enumerate() {
        let inside = wanted.iter().zip(&plan.placements).filter(|(_, placement)| placement.range == index);
        let mut inside: Vec<_> = inside.map(|(range, _)| *range).collect();
        if joined.length > max_bytes && !inside.contains(joined) {
            return Err(format!("{joined:?} is longer than {max_bytes}"));
        }
        inside.sort_by_key(|range| range.offset);
        let mut covered = u128::from(joined.offset);
        for range in inside {
            let gap = u128::from(range.offset).saturating_sub(covered);
            if gap > u128::from(gap_bytes) {
                return Err(format!("{joined:?} spans a gap of {gap}"));
            }
            waste += gap;
            covered = covered.max(end(&range));
        }
        if covered != end(joined) {
            return Err(format!("{joined:?} extends past the requested ranges"));
        }
    }
    if waste != u128::from(plan.gap_bytes) {
        return Err(format!("gaps of {waste} bytes are counted as {}", plan.gap_bytes));
    }
    Ok(())
}

/// A simple random number generator (xorshift64*), which reproduces a failure from its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % limit
    }
}

#[test]
fn any_wanted_ranges_give_a_plan_that_covers_them_within_the_limits() {
    for seed in 1..=20_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = random.below(12);
        // The ranges are dense or sparse, and near offset 0 or near the largest offset.
        let spread = 1 << random.below(10);
        let base = if random.below(4) == 0 { u64::MAX - spread } else { 0 };
        let longest = 1 + random.below(60);
        let wanted: Vec<_> =
            (0..count).map(|_| ByteRange::new(base + random.below(spread), random.below(longest))).collect();
        let (gap_bytes, max_bytes) = (random.below(20), random.below(100));
        let plan = coalesce(&wanted, gap_bytes, max_bytes);
        if let Err(reason) = check(&wanted, &plan, gap_bytes, max_bytes) {
            panic!("seed {seed}: {reason}\nwanted {wanted:?}\ngap {gap_bytes}, max {max_bytes}\n{plan:?}");
        }
    }
}
