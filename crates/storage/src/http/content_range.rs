//! The `Content-Range` and `Range` headers (RFC 9110, section 14).

use crate::ByteRange;

/// A parsed `Content-Range` header, such as `bytes 0-99/1000`, or `bytes */1000` from a server that refuses the range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    /// Range of the response; None if the server refused the range.
    pub(super) range: Option<ByteRange>,
    /// Size of the whole file; None if the server does not know the size.
    pub(super) size_bytes: Option<u64>,
}

impl ContentRange {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (range, size) = rest.trim().split_once('/')?;
        if !unit.eq_ignore_ascii_case("bytes") {
            return None;
        }
        let size_bytes = match size.trim() {
            "*" => None,
            number => Some(whole_number(number)?),
        };
        let range = match range.trim() {
            "*" => None,
            both => {
                let (first, last) = both.split_once('-')?;
                let (first, last) = (whole_number(first.trim())?, whole_number(last.trim())?);
                let length = last.checked_sub(first)?.checked_add(1)?;
                first.checked_add(length)?;
                Some(ByteRange::new(first, length))
            }
        };
        Some(Self { range, size_bytes })
    }
}

/// Parses a number that consists only of digits. Rust's parser would also accept `+1`.
fn whole_number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Returns the value of a `Range` header for these ranges, none of which may be empty.
pub(super) fn range_header<'a>(ranges: impl Iterator<Item = &'a ByteRange>) -> String {
    let one = |range: &ByteRange| {
        let last = range.offset.saturating_add(range.length).saturating_sub(1);
        format!("{}-{last}", range.offset)
    };
    format!("bytes={}", ranges.map(one).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        let parsed = |text| ContentRange::parse(text).map(|found| (found.range, found.size_bytes));
        assert_eq!(parsed("bytes 0-99/1000"), Some((Some(ByteRange::new(0, 100)), Some(1000))));
        assert_eq!(parsed("Bytes 999-999/*"), Some((Some(ByteRange::new(999, 1)), None)));
        assert_eq!(parsed("bytes */0"), Some((None, Some(0))));
        // XRootD sends this header for an empty file.
        assert_eq!(parsed("bytes 0-0/0"), Some((Some(ByteRange::new(0, 1)), Some(0))));
        for wrong in [
            "",
            "bytes",
            "bytes 0-99",
            "bytes 5-4/10",
            "lines 0-1/2",
            "bytes -1/2",
            "bytes +1-2/5",
            "bytes 0-18446744073709551615/*",
            "bytes 0-1/x",
            "bytes 1/2",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges_are_requested_by_their_first_and_last_byte() {
        let ranges = [ByteRange::new(0, 1), ByteRange::new(10, 5)];
        assert_eq!(range_header(ranges.iter()), "bytes=0-0,10-14");
    }
}
