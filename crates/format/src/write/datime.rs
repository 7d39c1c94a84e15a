//! TDatime: a date and time packed into 32 bits.

/// Number of seconds per day.
const DAY_S: u64 = 86_400;

/// Pack a Unix timestamp in seconds like TDatime, in UTC. The year is relative to 1995 and has 6 bits.
pub fn datime(seconds: u64) -> u32 {
    let (year, month, day) = date(seconds / DAY_S);
    let rest = (seconds % DAY_S) as u32;
    let year = year.clamp(1995, 1995 + 63) - 1995;
    (year as u32) << 26 | month << 22 | day << 17 | (rest / 3600) << 12 | (rest / 60 % 60) << 6 | (rest % 60)
}

/// Convert days since 1970-01-01 to year, month and day, with Howard Hinnant's algorithm `civil_from_days`.
fn date(days: u64) -> (u64, u32, u32) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_packed_as_root_does() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_778), (2026, 11, 21));
        // 2026-11-21 12:53:07
        let expected = 31 << 26 | 11 << 22 | 21 << 17 | 12 << 12 | 53 << 6 | 7;
        assert_eq!(datime(20_778 * DAY_S + 12 * 3600 + 53 * 60 + 7), expected);
    }
}
