//! The URL of an object of S3, from `s3://bucket/key` and the user's settings.

use super::profile::Profile;
use super::sign::encoded;
use crate::servers::failure::{Fault, Result};
use crate::servers::url::Url;
use crate::StorageErrorKind;

/// The parts of `s3://profile@bucket/key?versionId=...`. A key is taken as it stands: `%20` in it are three letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    /// The user's profile, if the URL names one.
    pub(super) profile: Option<String>,
    pub(super) bucket: String,
    pub(super) key: String,
    /// One version of the object, not its newest.
    pub(super) version: Option<String>,
}

impl Object {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (_, rest) = text.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (profile, bucket) = match bucket.rsplit_once('@') {
            Some((profile, bucket)) => (Some(profile.to_owned()), bucket),
            None => (None, bucket),
        };
        if profile.as_ref().is_some_and(|profile| profile.is_empty() || profile.contains(':')) {
            return Err(wrong("keys do not stand in the URL, but in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"));
        }
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_letter) {
            let port = "the server is not named here, but in AWS_ENDPOINT_URL";
            return Err(wrong(&format!("it does not begin with the name of a bucket, as s3://bucket/key; {port}")));
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

/// The server of a bucket, and where on it the bucket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bucket {
    pub(super) scheme: String,
    /// The value of the header `Host`.
    pub(super) host: String,
    /// The path before every key, from the slash after the host to the slash before the key.
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
        let unusable = || wrong("the endpoint is no URL as http://host:port or https://host");
        let url = Url::parse(&endpoint).map_err(|_| unusable())?;
        if !matches!(url.scheme.as_str(), "http" | "https") || url.user.is_some() || url.query.is_some() {
            return Err(unusable());
        }
        // Certificates are for one label before the server's name, and hosts have no capital letters.
        let fits_host = !bucket.contains(['.', '_']) && !bucket.bytes().any(|byte| byte.is_ascii_uppercase());
        let has_path_style = profile.has_path_style.unwrap_or(!(is_amazon && fits_host));
        let address = without_usual_port(&url);
        let before = encoded(url.path.trim_end_matches('/'), "/%");
        Ok(if has_path_style {
            Self { scheme: url.scheme, host: address, base: format!("{before}/{bucket}/") }
        } else {
            Self { scheme: url.scheme, host: format!("{bucket}.{address}"), base: format!("{before}/") }
        })
    }

    /// The path of an object in a request.
    pub(super) fn path_of(&self, key: &str) -> String {
        format!("{}{}", self.base, encoded(key, "/"))
    }
}

/// A host as clients write it in the header `Host`.
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
        Profile { keys: None, region: "eu-west-1".to_owned(), endpoint, has_path_style, identity: None }
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
        assert_eq!(bucket.path_of("a b/c%.root"), "/b/a%20b/c%25.root");
        for wrong in ["h:9000", "ftp://h", "http://id:secret@h", "http://h?x=1", "http://"] {
            let fault = Bucket::of("b", &profile(Some(wrong), None)).err().unwrap();
            assert!(!fault.reason.contains("secret"), "{wrong}");
        }
    }
}
