//! Opens S3 objects and lists the objects below a prefix.

use super::address::{Bucket, Object};
use super::profile::{profile, Profile};
use super::signer::Signer;
use crate::http::{body_of, client, Client, DataRequest, HttpFile, Location, Protocol};
use crate::limits::{LISTING_PAGES_BYTES_MAX, LISTING_PAGES_MAX, S3_GAP_BYTES};
use crate::secrets::without_secrets;
use crate::servers::failure::{Fault, Result};
use crate::servers::retry::with_retries;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Opens the object `s3://bucket/key`.
pub(crate) fn open_s3(path: &str, settings: &Settings) -> crate::Result<HttpFile> {
    try_open(path, settings).map_err(|fault| fault.at(path, None))
}

fn try_open(path: &str, settings: &Settings) -> Result<HttpFile> {
    let object = Object::parse(path)?;
    if object.key.is_empty() {
        return Err(Fault::new(StorageErrorKind::NotAFile, "it names a bucket but no object"));
    }
    let client = client()?;
    let mut profile = profile(object.profile.as_deref())?;
    let location = location_of(path, &object, &profile, settings)?;
    let refused = match HttpFile::open_at(location, &client, settings.clone()) {
        Err(fault) if fault.kind == StorageErrorKind::Refused => fault,
        done => return done,
    };
    // The configured region may be wrong. Servers refuse requests that are signed for a wrong region in different ways,
    // so query the true region after any refusal.
    match true_region(&client, &object, &profile, settings)? {
        Some(region) if region != profile.region => {
            profile.region = region;
            HttpFile::open_at(location_of(path, &object, &profile, settings)?, &client, settings.clone())
        }
        _ => Err(refused),
    }
}

/// Returns the name in reports of a bucket's storage element.
fn element_of(bucket: &Bucket) -> String {
    format!("s3://{}/{}", bucket.host, bucket.base.trim_matches('/')).trim_end_matches('/').to_owned()
}

fn location_of(path: &str, object: &Object, profile: &Profile, settings: &Settings) -> Result<Location> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let query: Vec<_> = object.version.iter().map(|version| ("versionId", version.as_str())).collect();
    Ok(Location {
        path: without_secrets(path),
        element: element_of(&bucket),
        url: bucket.url_of(&object.key, &query),
        server: bucket.host,
        authorization: Box::new(Signer::new(profile, settings)),
        protocol: Protocol::S3,
        gap_bytes: S3_GAP_BYTES,
    })
}

/// Lists objects and folders directly below `s3://bucket/prefix`. Returns the unparsed ListObjectsV2 responses, which
/// contain up to 1000 names each.
pub(crate) fn list_s3(path: &str, settings: &Settings) -> Result<Vec<Vec<u8>>> {
    let object = Object::parse(path)?;
    let client = client()?;
    let mut profile = profile(object.profile.as_deref())?;
    match list_pages(&client, &object, &profile, settings) {
        Err(fault) if fault.kind == StorageErrorKind::Refused => {
            match true_region(&client, &object, &profile, settings)? {
                Some(region) if region != profile.region => {
                    profile.region = region;
                    list_pages(&client, &object, &profile, settings)
                }
                _ => Err(fault),
            }
        }
        done => done,
    }
}

fn list_pages(client: &Client, object: &Object, profile: &Profile, settings: &Settings) -> Result<Vec<Vec<u8>>> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let settings = settings.clone().at(&element_of(&bucket));
    let prefix = object.key.trim_end_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let (mut pages, mut token): (Vec<Vec<u8>>, Option<String>) = (Vec::new(), None);
    let signer = Signer::new(profile, &settings);
    let mut bytes = 0;
    for _ in 0..LISTING_PAGES_MAX {
        let mut query = vec![("delimiter", "/"), ("encoding-type", "url"), ("list-type", "2"), ("prefix", &prefix)];
        query.extend(token.as_deref().map(|token| ("continuation-token", token)));
        let url = bucket.url_of("", &query);
        let page = with_retries(&settings, |_| {
            let traced = branchline_trace::journal::request("GET", &url, &settings.element, std::iter::empty());
            let mut answer = client.call("GET", &url, &[], &signer, traced, &settings)?;
            if answer.status() != 200 {
                return Err(answer.refusal(&signer));
            }
            body_of(&mut answer)
        })?;
        token = next_token(&page, &bucket.host)?;
        bytes += page.len() as u64;
        pages.push(page);
        if token.is_none() {
            return Ok(pages);
        }
        if bytes > LISTING_PAGES_BYTES_MAX {
            break;
        }
    }
    Err(Fault::new(StorageErrorKind::Refused, "there are too many objects below this prefix to list"))
}

/// Returns the continuation token for the next page of a listing; None for the last page.
fn next_token(page: &[u8], server: &str) -> Result<Option<String>> {
    let text = String::from_utf8_lossy(page);
    let named = text.split_once("<NextContinuationToken>").and_then(|(_, rest)| rest.split('<').next());
    let decoded =
        |token: &str| token.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    // Servers that only support version 1 of the listing API send no continuation token with a truncated listing.
    if named.is_none() && text.contains("<IsTruncated>true<") {
        return Err(Fault::protocol(server, "a truncated list without a continuation token").final_for_now());
    }
    Ok(named.map(decoded))
}

/// Queries the region of a bucket, which servers report in the header of every response; None if the server reports no
/// region.
fn true_region(client: &Client, object: &Object, profile: &Profile, settings: &Settings) -> Result<Option<String>> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let url = bucket.url_of("", &[]);
    let settings = settings.clone().at(&element_of(&bucket));
    let signer = Signer::new(profile, &settings);
    let answer = with_retries(&settings, |_| {
        let traced = branchline_trace::journal::request("HEAD", &url, &settings.element, std::iter::empty());
        client.fetch(
            DataRequest { url: &url, range: None, bytes: Some(0), without_body: true, traced },
            &signer,
            &settings,
        )
    })?;
    let is_region =
        |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Ok(answer.header("x-amz-bucket-region").filter(is_region).map(str::to_owned))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_list_ends_only_where_the_server_says_so() {
        let token = |page: &str| next_token(page.as_bytes(), "s3.site").map_err(|fault| fault.kind);
        let more = "<IsTruncated>true</IsTruncated><NextContinuationToken>a&amp;lt;b==</NextContinuationToken>";
        assert_eq!(token(more), Ok(Some("a&lt;b==".to_owned())));
        assert_eq!(token("<IsTruncated>false</IsTruncated>"), Ok(None));
        assert_eq!(token("<IsTruncated>true</IsTruncated><NextMarker>f</NextMarker>"), Err(StorageErrorKind::Protocol));
    }
}
