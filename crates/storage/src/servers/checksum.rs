//! Checksums of whole files, in a normalized form for comparison.

/// Normalizes a checksum, which a server may send in hexadecimal or base 64, to `kind:digits` in lower-case
/// hexadecimal. Short checksums lose their leading zeros, because some servers omit them. Returns None if the kind or
/// the value is invalid.
pub(crate) fn checksum(kind: &str, value: &str) -> Option<String> {
    let (kind, value) = (kind.trim().to_ascii_lowercase(), value.trim());
    let length = match kind.as_str() {
        "adler32" | "crc32" | "crc32c" => 4,
        "crc64nvme" => 8,
        "md5" => 16,
        "sha1" | "sha" => 20,
        "sha256" | "sha-256" => 32,
        _ => return None,
    };
    let is_short = length < 16;
    let is_hexadecimal = value.bytes().all(|byte| byte.is_ascii_hexdigit());
    let hexadecimal = match value.len() {
        digits if is_hexadecimal && (digits == 2 * length || (is_short && (1..2 * length).contains(&digits))) => {
            value.to_ascii_lowercase()
        }
        _ => {
            from_base64(value).filter(|bytes| bytes.len() == length)?.iter().map(|byte| format!("{byte:02x}")).collect()
        }
    };
    let digits = if is_short { hexadecimal.trim_start_matches('0') } else { &hexadecimal };
    let kind = match kind.as_str() {
        "sha" => "sha1",
        "sha-256" => "sha256",
        kind => kind,
    };
    Some(format!("{kind}:{digits}"))
}

/// Decodes base 64 as specified in RFC 4648, section 4; returns None if the string is invalid.
fn from_base64(text: &str) -> Option<Vec<u8>> {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if !text.len().is_multiple_of(4) || text.len() > 64 {
        return None;
    }
    let bare = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for letter in bare.bytes() {
        let six = LETTERS.iter().position(|known| *known == letter)?;
        bits = bits << 6 | u32::try_from(six).ok()?;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn checksums_are_compared_however_they_are_written() {
        let adler = Some("adler32:a1b2c3".to_owned());
        assert_eq!(checksum("ADLER32", "00A1B2C3"), adler);
        assert_eq!(checksum("adler32", " a1b2c3 "), adler);
        assert_eq!(checksum("adler32", "AKGyww=="), adler);
        let md5 = Some("md5:d41d8cd98f00b204e9800998ecf8427e".to_owned());
        assert_eq!(checksum("MD5", "D41D8CD98F00B204E9800998ECF8427E"), md5);
        assert_eq!(checksum("md5", "1B2M2Y8AsgTpgAmY7PhCfg=="), md5);
        assert_eq!(checksum("sha-1", "2jmj7l5rSw0yVb/vlWAYkK/YBwk="), None);
        assert_eq!(
            checksum("SHA", "2jmj7l5rSw0yVb/vlWAYkK/YBwk="),
            checksum("sha1", "da39a3ee5e6b4b0d3255bfef95601890afd80709")
        );
    }

    #[test]
    fn what_is_no_checksum_of_a_whole_file_is_none() {
        for (kind, value) in [
            ("md5", "xyz"),
            ("md5", "d41d8cd98f00b204e9800998ecf8427e-3"),
            ("md5", "d41d8cd98f00b204e9800998ecf8427"),
            ("crc32c", "AKGyww==-2"),
            ("crc32", ""),
            ("adler32", "123456789"),
            ("unixsum", "12"),
            ("sha256", "\u{e9}\u{e9}"),
        ] {
            assert_eq!(checksum(kind, value), None, "{kind} {value}");
        }
    }
}
