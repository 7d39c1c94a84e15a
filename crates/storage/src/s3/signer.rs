//! Signs the requests for one address of S3.

use std::time::SystemTime;

use super::address::Bucket;
use super::profile::Profile;
use super::sign::{encoded_query, signed, Keys, Request};
use crate::http::Authorization;
use crate::servers::failure::Result;

/// Signs the requests for one address.
pub(super) struct Signer {
    keys: Option<Keys>,
    region: String,
    host: String,
    path: String,
    query: Vec<(String, String)>,
}

impl Signer {
    /// Signs requests for `path` in a bucket, with the parameters of `query`.
    pub(super) fn new(profile: &Profile, bucket: &Bucket, path: String, query: Vec<(String, String)>) -> Self {
        Self { keys: profile.keys.clone(), region: profile.region.clone(), host: bucket.host.clone(), path, query }
    }

    /// Signs nothing: for requests of the first keys.
    pub(super) fn unsigned() -> Self {
        let (region, host, path) = Default::default();
        Self { keys: None, region, host, path, query: Vec::new() }
    }

    pub(super) fn url(&self, bucket: &Bucket) -> String {
        let query = encoded_query(&self.pairs());
        let mark = if query.is_empty() { "" } else { "?" };
        format!("{}://{}{}{mark}{query}", bucket.scheme, self.host, self.path)
    }

    fn pairs(&self) -> Vec<(&str, &str)> {
        self.query.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }
}

impl Authorization for Signer {
    fn headers(&self, method: &str, _url: &str, others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        let Some(keys) = &self.keys else { return Ok(Vec::new()) };
        let request = Request { method, host: &self.host, path: &self.path, query: &self.pairs(), headers: others };
        Ok(signed(&request, keys, &self.region, SystemTime::now()))
    }

    /// A signature is for one host.
    fn follows_redirects(&self) -> bool {
        false
    }

    fn advice(&self) -> String {
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
