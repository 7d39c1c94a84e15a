//! Signatures of requests to S3: version 4 of Amazon's, which all others take too ("Authenticating Requests (AWS
//! Signature Version 4)" of Amazon's S3 API reference).

use std::time::{SystemTime, UNIX_EPOCH};

use ring::digest::{digest, SHA256};
use ring::hmac;

/// The keys of a user. They are shown nowhere, not for debugging either.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Keys {
    pub(super) id: String,
    pub(super) secret: String,
    /// The session token of temporary keys.
    pub(super) session_token: Option<String>,
}

/// The hash of a request without a body.
const NO_BODY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The parts of a request that are signed.
pub(super) struct Request<'a> {
    pub(super) method: &'a str,
    /// With the port where it is not the usual one of the scheme, as it stands in the header.
    pub(super) host: &'a str,
    /// Encoded, from the slash after the host on.
    pub(super) path: &'a str,
    /// Names and values, not encoded.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Header lines that it has already, of which those of Amazon's own are signed. Their names are in small letters.
    pub(super) headers: &'a [(&'a str, &'a str)],
}

/// The header lines with which `request` is made: at the time `now`, in a region.
pub(super) fn signed(request: &Request<'_>, keys: &Keys, region: &str, now: SystemTime) -> Vec<(&'static str, String)> {
    let time = stamp(now);
    let date = &time[..8];
    let mut headers = vec![("x-amz-content-sha256", NO_BODY.to_owned()), ("x-amz-date", time.clone())];
    if let Some(token) = &keys.session_token {
        headers.push(("x-amz-security-token", token.clone()));
    }
    let mut all = vec![("host", request.host)];
    all.extend(request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-")));
    all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
    all.sort_unstable();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = all.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
    let query = encoded_query(request.query);
    let canonical = format!("{}\n{}\n{query}\n{lines}\n{names}\n{NO_BODY}", request.method, request.path);
    let scope = format!("{date}/{region}/s3/aws4_request");
    let hash = hex(digest(&SHA256, canonical.as_bytes()).as_ref());
    let signature = hex(&[date, region, "s3", "aws4_request", &format!("{ALGORITHM}\n{time}\n{scope}\n{hash}")]
        .iter()
        .fold(format!("AWS4{}", keys.secret).into_bytes(), |key, part| mac(&key, part)));
    let authorization =
        format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", keys.id);
    headers.push(("authorization", authorization));
    headers
}

fn mac(key: &[u8], part: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), part.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Names and values of the query, sorted by name.
pub(super) fn encoded_query(query: &[(&str, &str)]) -> String {
    let mut parts: Vec<String> =
        query.iter().map(|(name, value)| encoded(name, "") + "=" + &encoded(value, "")).collect();
    parts.sort();
    parts.join("&")
}

/// Every byte but the unreserved ones of RFC 3986 and those of `kept`, as S3 wants it.
pub(super) fn encoded(text: &str, kept: &str) -> String {
    let one = |byte: u8| {
        let letter = char::from(byte);
        if byte.is_ascii_alphanumeric() || "-._~".contains(letter) || kept.contains(letter) {
            letter.to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    text.bytes().map(one).collect()
}

/// A time as `20130524T000000Z`.
fn stamp(now: SystemTime) -> String {
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Year, month and day of the Gregorian calendar, from the days since 1970-01-01.
fn date_of(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the odd day comes at their end; 0000-03-01 is 719468 days before 1970.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn keys() -> Keys {
        Keys {
            id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            session_token: None,
        }
    }

    /// 2013-05-24T00:00:00Z, of the examples in Amazon's reference.
    fn then() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_369_353_600)
    }

    fn signature(headers: &[(&str, String)]) -> String {
        let (_, line) = headers.iter().find(|(name, _)| *name == "authorization").unwrap();
        line.rsplit_once("Signature=").unwrap().1.to_owned()
    }

    /// "GET Bucket (List Objects)" of the examples in Amazon's reference.
    #[test]
    fn a_request_of_the_reference_gets_the_signature_of_the_reference() {
        let query = [("prefix", "J"), ("max-keys", "2")];
        let request =
            Request { method: "GET", host: "examplebucket.s3.amazonaws.com", path: "/", query: &query, headers: &[] };
        let headers = signed(&request, &keys(), "us-east-1", then());
        assert_eq!(signature(&headers), "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
        let names: Vec<_> = headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["x-amz-content-sha256", "x-amz-date", "authorization"]);
    }

    /// "GET Bucket Lifecycle" of the same: a name without a value.
    #[test]
    fn a_name_without_a_value_is_signed_too() {
        let query = [("lifecycle", "")];
        let request =
            Request { method: "GET", host: "examplebucket.s3.amazonaws.com", path: "/", query: &query, headers: &[] };
        let headers = signed(&request, &keys(), "us-east-1", then());
        assert_eq!(signature(&headers), "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
    }

    #[test]
    fn a_token_of_a_session_is_sent_and_signed_and_so_are_other_lines_of_amazons() {
        let keys = Keys { session_token: Some("lent".to_owned()), ..keys() };
        let others = [("x-amz-checksum-mode", "ENABLED"), ("Range", "bytes=0-0")];
        let request = Request { method: "GET", host: "h", path: "/", query: &[], headers: &others };
        let headers = signed(&request, &keys, "r", then());
        assert!(headers.contains(&("x-amz-security-token", "lent".to_owned())));
        let names = "SignedHeaders=host;x-amz-checksum-mode;x-amz-content-sha256;x-amz-date;x-amz-security-token,";
        assert!(headers.iter().any(|(_, line)| line.contains(names)));
        assert!(!headers.iter().any(|(name, _)| *name == "x-amz-checksum-mode"));
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (1_369_353_600, "20130524T000000Z"),
            (1_709_251_199, "20240229T235959Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(stamp(UNIX_EPOCH + Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn letters_beyond_the_unreserved_are_encoded() {
        assert_eq!(encoded("a/b c+%\u{e4}~", "/"), "a/b%20c%2B%25%C3%A4~");
        assert_eq!(encoded_query(&[("b", "1"), ("a", "x=/")]), "a=x%3D%2F&b=1");
    }
}
