//! Opening an object of S3, and signing the requests for it.

use std::time::SystemTime;

use super::address::{Bucket, Object};
use super::lent::borrow;
use super::profile::{profile, Profile};
use super::sign::{encoded_query, signed, Keys, Request};
use crate::fault::{Fault, Result};
use crate::http::{body_of, client, Ask, Client, HttpFile, Leave, Place};
use crate::limits::{LISTING_PAGES_MAX, S3_GAP_BYTES};
use crate::retry::with_retries;
use crate::settings::Settings;
use crate::url::without_secrets;
use crate::StorageErrorKind;

/// Signs the requests for one address.
pub(crate) struct Signer {
    keys: Option<Keys>,
    region: String,
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

impl Signer {
    fn url(&self, bucket: &Bucket) -> String {
        let query = encoded_query(&self.pairs());
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}://{}{}{mark}{query}", bucket.scheme, self.host, self.path)
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.query.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    /// The header lines of a request that is made now and has others; none without keys.
    pub(crate) fn headers(&self, method: &str, others: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let Some(keys) = &self.keys else { return Vec::new() };
        let request = Request { method, host: &self.host, path: &self.path, query: &self.pairs(), headers: others };
        signed(&request, keys, &self.region, SystemTime::now())
    }

    /// What may be wrong if a server does not let the user read.
    pub(crate) fn advice(&self) -> String {
        match &self.keys {
            Some(_) => {
                "the keys are those of AWS_ACCESS_KEY_ID, or of AWS_PROFILE in ~/.aws/credentials; the region and \
                        the server those of AWS_REGION and AWS_ENDPOINT_URL, or of ~/.aws/config"
                    .to_owned()
            }
            None => "the request was not signed, because there are no keys in AWS_ACCESS_KEY_ID and \
                     AWS_SECRET_ACCESS_KEY or in ~/.aws/credentials"
                .to_owned(),
        }
    }
}

/// The leave of who shows nothing.
pub(super) fn unsigned() -> Leave {
    let (region, host, path) = Default::default();
    Leave::Signature(Signer { keys: None, region, host, path, query: Vec::new() })
}

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
    borrow(&client, &mut profile, settings)?;
    let refused = match HttpFile::open_at(place_of(path, &object, &profile)?, &client, settings.clone()) {
        Err(fault) if fault.kind == StorageErrorKind::Refused => fault,
        done => return done,
    };
    // A request that is signed for another region than the bucket's is refused, in one of several ways.
    match true_region(&client, &object, &profile, settings)? {
        Some(region) if region != profile.region => {
            profile.region = region;
            HttpFile::open_at(place_of(path, &object, &profile)?, &client, settings.clone())
        }
        _ => Err(refused),
    }
}

fn place_of(path: &str, object: &Object, profile: &Profile) -> Result<Place> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let query: Vec<_> = object.version.iter().map(|version| ("versionId".to_owned(), version.clone())).collect();
    let signer = signer(profile, &bucket, bucket.path_of(&object.key), query);
    Ok(Place {
        path: without_secrets(path),
        name: format!("s3://{}/{}", bucket.host, bucket.base.trim_matches('/')).trim_end_matches('/').to_owned(),
        url: signer.url(&bucket),
        server: bucket.host,
        leave: Leave::Signature(signer),
        gap_bytes: S3_GAP_BYTES,
    })
}

fn signer(profile: &Profile, bucket: &Bucket, path: String, query: Vec<(String, String)>) -> Signer {
    Signer { keys: profile.keys.clone(), region: profile.region.clone(), host: bucket.host.clone(), path, query }
}

/// Lists what is directly below the prefix of `s3://bucket/prefix`: answers to ListObjectsV2 of 1000 names each.
pub(crate) fn list_s3(path: &str, settings: &Settings) -> Result<Vec<Vec<u8>>> {
    let object = Object::parse(path)?;
    let client = client()?;
    let mut profile = profile(object.profile.as_deref())?;
    borrow(&client, &mut profile, settings)?;
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
        let signer = signer(profile, &bucket, bucket.path_of(""), query);
        let url = signer.url(&bucket);
        let leave = Leave::Signature(signer);
        let page = with_retries(settings, |_| {
            let told = branchline_trace::journal::request("GET", &url, &bucket.host, std::iter::empty());
            let mut answer = client.call("GET", &url, &[], &leave, told, settings)?;
            if answer.status() != 200 {
                return Err(answer.refusal(&leave));
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

/// Where the next answer begins.
fn next_token(page: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(page);
    let (_, rest) = text.split_once("<NextContinuationToken>")?;
    let token = rest.split('<').next()?;
    Some(token.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&"))
}

/// The region that a bucket is in, which servers say whatever they answer else.
fn true_region(client: &Client, object: &Object, profile: &Profile, settings: &Settings) -> Result<Option<String>> {
    let bucket = Bucket::of(&object.bucket, profile)?;
    let signer = signer(profile, &bucket, bucket.path_of(""), Vec::new());
    let url = signer.url(&bucket);
    let leave = Leave::Signature(signer);
    let answer = with_retries(settings, |_| {
        let told = branchline_trace::journal::request("HEAD", &url, &bucket.host, std::iter::empty());
        client.ask(Ask { url: &url, range: None, bytes: 0, without_body: true, told }, &leave, settings)
    })?;
    let is_region =
        |name: &&str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    Ok(answer.header("x-amz-bucket-region").filter(is_region).map(str::to_owned))
}
