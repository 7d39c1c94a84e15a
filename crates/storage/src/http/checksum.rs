//! The checksums of a whole file that servers tell beside its bytes.

use super::client::{Answer, Client};
use super::file::Place;
use super::folder::asked;
use super::leave::Leave;
use crate::settings::Settings;

/// The checksums of a file and their kinds, as `adler32:a1b2c3d`: those of RFC 3230 from a server that says any, those
/// that an object was stored with from one of S3.
pub(super) fn checksums(client: &Client, place: &Place, settings: &Settings) -> Vec<String> {
    let (header, read): (_, fn(&Answer) -> Vec<String>) = match &place.leave {
        Leave::Token(_) => (("Want-Digest", "adler32, crc32c;q=0.5, md5;q=0.3"), digests),
        Leave::Signature(_) => (("x-amz-checksum-mode", "ENABLED"), of_object),
    };
    match asked(client, place, "HEAD", &[header], settings) {
        Ok(answer) if answer.status() == 200 => read(&answer),
        _ => Vec::new(),
    }
}

fn digests(answer: &Answer) -> Vec<String> {
    let each = answer.header("digest").unwrap_or_default().split(',');
    each.filter_map(|one| one.trim().split_once('=')).filter_map(|(kind, value)| checksum(kind, value)).collect()
}

/// What S3 tells of an object. One that was stored in parts has checksums of the checksums of these, with their number
/// behind a dash, and the entity tag of one that is encrypted by keys of the user's is no checksum ("Checking object
/// integrity in Amazon S3").
fn of_object(answer: &Answer) -> Vec<String> {
    let is_whole = answer.header("x-amz-checksum-type").is_none_or(|kind| kind == "FULL_OBJECT");
    let kinds = if is_whole { &["crc32", "crc32c", "crc64nvme", "sha1", "sha256"][..] } else { &[] };
    let told = |kind: &&str| checksum(kind, answer.header(&format!("x-amz-checksum-{kind}"))?);
    let is_encrypted = answer.header("x-amz-server-side-encryption").is_some_and(|how| how != "AES256")
        || answer.header("x-amz-server-side-encryption-customer-algorithm").is_some();
    let tag = answer.header("etag").filter(|_| !is_encrypted).map(|tag| tag.trim_matches('"'));
    kinds.iter().filter_map(told).chain(tag.and_then(|tag| checksum("md5", tag))).collect()
}

/// As it is compared: kinds and hexadecimal digits in small letters, whether it was told in these or in base 64, and
/// without zeros in front, which some leave out.
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

/// The bytes of a text of RFC 4648, 4.
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
