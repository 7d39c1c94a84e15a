//! Builds URLs of S3 objects from `s3://bucket/key` and the user's settings.

use super::profile::Profile;
use crate::servers::failure::{Fault, Result};
use crate::servers::url::{percent_encoded, Url};
use crate::StorageErrorKind;

/// Parts of a URL `s3://profile@bucket/key?versionId=...`. The key is taken literally: `%20` is not decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    /// Name of the profile in the URL, if any.
    pub(super) profile: Option<String>,
    pub(super) bucket: String,
    pub(super) key: String,
    /// Version of the object; None for the newest version.
    pub(super) version: Option<String>,
}

impl Object {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (_, rest) = text.split_once("://").ok_or_else(|| wrong("it is not a URL"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (profile, bucket) = match bucket.rsplit_once('@') {
            Some((profile, bucket)) => (Some(profile.to_owned()), bucket),
            None => (None, bucket),
        };
        if profile.as_ref().is_some_and(|profile| profile.is_empty() || profile.contains(':')) {
            return Err(wrong("a URL must not contain keys; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
        }
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_letter) {
            let port = "set the server with AWS_ENDPOINT_URL";
            return Err(wrong(&format!("it must start with the name of a bucket, as in s3://bucket/key; {port}")));
        }
        let (key, version) = match key.split_once("?versionId=") {
            Some((key, version)) => (key, Some(version.to_owned())),
            None => (key, None),
        };
        Ok(Self { profile, bucket: bucket.to_owned(), key: key.to_owned(), version })
    }
}

fn wrong(reason: &str) -> Fault {
    Fault::new(StorageErrorKind::UnsupportedScheme, reason)
}

/// Location of a bucket: the server, and the path of the bucket on that server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) scheme: String,
    /// Value of the `Host` header.
    pub(super) host: String,
    /// Path before the key, including the slashes at both ends.
    pub(super) base: String,
}

impl Bucket {
    pub(super) fn of(bucket: &str, profile: &Profile) -> Result<Self> {
        let region = &profile.region;
        let (endpoint, is_amazon) = match &profile.endpoint {
            Some(endpoint) => (endpoint.clone(), false),
            None if region.starts_with("cn-") => (format!("https://s3.{region}.amazonaws.com.cn"), true),
            None => (format!("https://s3.{region}.amazonaws.com"), true),
        };
        let unusable = || wrong("the endpoint must be a URL such as http://host:port or https://host");
        let url = Url::parse(&endpoint).map_err(|_| unusable())?;
        if !matches!(url.scheme.as_str(), "http" | "https") || url.user.is_some() || url.query.is_some() {
            return Err(unusable());
        }
        // Certificates cover only one label before the server's name, and host names are in lower case.
        let fits_host = !bucket.contains(['.', '_']) && !bucket.bytes().any(|byte| byte.is_ascii_uppercase());
        let has_path_style = profile.has_path_style.unwrap_or(!(is_amazon && fits_host));
        let address = without_usual_port(&url);
        let before = percent_encoded(url.path.trim_end_matches('/'), b"/%");
        Ok(if has_path_style {
            Self { scheme: url.scheme, host: address, base: format!("{before}/{bucket}/") }
        } else {
            Self { scheme: url.scheme, host: format!("{bucket}.{address}"), base: format!("{before}/") }
        })
    }

    /// Returns the URL of an object with query parameters. If the key is empty, returns the URL of the bucket.
    pub(super) fn url_of(&self, key: &str, query: &[(&str, &str)]) -> String {
        let Self { scheme, host, base } = self;
        let pair = |(name, value): &(&str, &str)| percent_encoded(name, b"") + "=" + &percent_encoded(value, b"");
        let pairs: Vec<String> = query.iter().map(pair).collect();
        let mark = if pairs.is_empty() { "" } else { "?" };
        format!("{scheme}://{host}{base}{}{mark}{}", percent_encoded(key, b"/"), pairs.join("&"))
    }
}

/// Returns the host and port as clients write them in the `Host` header, without the default port of the scheme.
fn without_usual_port(url: &Url) -> String {
    let usual = if url.scheme == "https" { 443 } else { 80 };
    let address = url.address().to_ascii_lowercase();
    match url.port {
        Some(port) if port == usual => address.trim_end_matches(&format!(":{port}")).to_owned(),
        _ => address,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn profile(endpoint: Option<&str>, has_path_style: Option<bool>) -> Profile {
        let endpoint = endpoint.map(str::to_owned);
        Profile { credentials: None, region: "eu-west-1".to_owned(), endpoint, has_path_style }
    }

    #[test]
    fn keys_are_taken_as_they_stand() {
        let object = Object::parse("s3://me@my-bucket/a b/c%20?d#e.root?versionId=V1").unwrap();
        assert_eq!((object.profile.as_deref(), object.bucket.as_str()), (Some("me"), "my-bucket"));
        assert_eq!((object.key.as_str(), object.version.as_deref()), ("a b/c%20?d#e.root", Some("V1")));
        assert_eq!(Object::parse("S3://b").unwrap().key, "");
        for wrong in ["s3:///key", "s3://", "s3://host:9000/b/k", "s3://id:secret@b/k", "s3://@b/k", "s3://b\u{e4}/k"] {
            assert!(Object::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bucket_stands_before_the_host_at_amazon_and_in_the_path_elsewhere() {
        for (endpoint, style, bucket, expected) in [
            (None, None, "b", "https b.s3.eu-west-1.amazonaws.com /"),
            (None, None, "b.c", "https s3.eu-west-1.amazonaws.com /b.c/"),
            (None, Some(true), "b", "https s3.eu-west-1.amazonaws.com /b/"),
            (Some("http://H:80"), None, "b", "http h /b/"),
            (Some("https://h:443/"), Some(false), "b", "https b.h /"),
            (Some("http://[::1]:9000/s3/"), None, "b", "http [::1]:9000 /s3/b/"),
        ] {
            let found = Bucket::of(bucket, &profile(endpoint, style)).unwrap();
            assert_eq!(format!("{} {} {}", found.scheme, found.host, found.base), expected);
        }
        let bucket = Bucket::of("b", &profile(Some("http://h:1"), None)).unwrap();
        assert_eq!(bucket.url_of("a b/c%+\u{e4}.root", &[]), "http://h:1/b/a%20b/c%25%2B%C3%A4.root");
        assert_eq!(bucket.url_of("", &[("a", "x=/"), ("b", "")]), "http://h:1/b/?a=x%3D%2F&b=");
        for wrong in ["h:9000", "ftp://h", "http://id:secret@h", "http://h?x=1", "http://"] {
            let fault = Bucket::of("b", &profile(Some(wrong), None)).err().unwrap();
            assert!(!fault.reason.contains("secret"), "{wrong}");
        }
    }
}
