//! Opens objects of S3 and lists what is below a prefix.

use super::address::{Bucket, Object};
use super::profile::{profile, Profile};
use super::signer::Signer;
use super::web_identity::add_temporary_keys;
use crate::fault::{Fault, Result};
use crate::http::{body_of, client, Client, DataRequest, HttpFile, Location, Protocol};
use crate::limits::{LISTING_PAGES_MAX, S3_GAP_BYTES};
use crate::retry::with_retries;
use crate::secrets::without_secrets;
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Opens the object `s3://bucket/key`.
pub(crate) fn open_s3(path: &str, settings: &Settings) -> crate::Result<HttpFile> {
    try_open(path, settings).map_err(|fault| fault.at(path, None))
}

fn try_open(path: &str, settings: &Settings) -> Result<HttpFile> {
    let object = Object::parse(path)?;
    if object.key.is_empty() {
        return Err(Fault::new(StorageErrorKind::NotAFile, "it names a bucket and no object in it"));
    }
    let client = client()?;
    let mut profile = profile(object.profile.as_deref())?;
    add_temporary_keys(&client, &mut profile, settings)?;
    let refused = match HttpFile::open_at(location_of(path, &object, &profile)?, &client, settings.clone()) {
        Err(fault) if fault.kind == StorageErrorKind::Refused => fault,
        done => return done,
    };
    // A request that is signed for another region than the bucket's is refused, in one of several ways.
    match true_region(&client, &object, &profile, settings)? {
        Some(region) if region != profile.region => {
            profile.region = region;
            HttpFile::open_at(location_of(path, &object, &profile)?, &client, settings.clone())
        }
        _ => Err(refused),
    }
}

fn location_of(path: &str, object: &Object, profile: &Profile) -> Result<Location> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let query: Vec<_> = object.version.iter().map(|version| ("versionId".to_owned(), version.clone())).collect();
    let signer = Signer::new(profile, &bucket, bucket.path_of(&object.key), query);
    Ok(Location {
        path: without_secrets(path),
        element: format!("s3://{}/{}", bucket.host, bucket.base.trim_matches('/')).trim_end_matches('/').to_owned(),
        url: signer.url(&bucket),
        server: bucket.host,
        authorization: Box::new(signer),
        protocol: Protocol::S3,
        gap_bytes: S3_GAP_BYTES,
    })
}

/// Lists what is directly below the prefix of `s3://bucket/prefix`: answers to ListObjectsV2 of 1000 names each.
pub(crate) fn list_s3(path: &str, settings: &Settings) -> Result<Vec<Vec<u8>>> {
    let object = Object::parse(path)?;
    let client = client()?;
    let mut profile = profile(object.profile.as_deref())?;
    add_temporary_keys(&client, &mut profile, settings)?;
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
    let prefix = object.key.trim_end_matches('/');
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let (mut pages, mut token): (Vec<Vec<u8>>, Option<String>) = (Vec::new(), None);
    for _ in 0..LISTING_PAGES_MAX {
        let mut query = vec![("delimiter", "/".to_owned()), ("encoding-type", "url".to_owned())];
        query.extend([("list-type", "2".to_owned()), ("prefix", prefix.clone())]);
        query.extend(token.take().map(|token| ("continuation-token", token)));
        let query = query.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let signer = Signer::new(profile, &bucket, bucket.path_of(""), query);
        let url = signer.url(&bucket);
        let page = with_retries(settings, |_| {
            let traced = branchline_trace::journal::request("GET", &url, &bucket.host, std::iter::empty());
            let mut answer = client.call("GET", &url, &[], &signer, traced, settings)?;
            if answer.status() != 200 {
                return Err(answer.refusal(&signer));
            }
            body_of(&mut answer)
        })?;
        token = next_token(&page);
        pages.push(page);
        if token.is_none() {
            return Ok(pages);
        }
    }
    Err(Fault::new(StorageErrorKind::Refused, "there are more objects below this prefix than are listed here"))
}

/// The token with which the next page of a listing begins.
fn next_token(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let (_, rest) = text.split_once("<NextContinuationToken>")?;
    let token = rest.split('<').next()?;
    Some(token.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

/// The region that a bucket is in, which servers say whatever they answer else.
fn true_region(client: &Client, object: &Object, profile: &Profile, settings: &Settings) -> Result<Option<String>> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let signer = Signer::new(profile, &bucket, bucket.path_of(""), Vec::new());
    let url = signer.url(&bucket);
    let answer = with_retries(settings, |_| {
        let traced = branchline_trace::journal::request("HEAD", &url, &bucket.host, std::iter::empty());
        client.fetch(DataRequest { url: &url, range: None, bytes: 0, without_body: true, traced }, &signer, settings)
    })?;
    let is_region =
        |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Ok(answer.header("x-amz-bucket-region").filter(is_region).map(str::to_owned))
}
