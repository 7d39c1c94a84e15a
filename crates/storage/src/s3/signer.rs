//! Signs requests to S3 with reqsign.

use http::Request;
use pollster::block_on;
use reqsign_aws_v4::{Credential, EMPTY_STRING_SHA256};

use super::credentials::{fault_of, signer_of, Source};
use super::profile::Profile;
use crate::http::Authorization;
use crate::servers::failure::{Fault, Result};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Names of the headers that a signature adds to a request.
const SIGNATURE_HEADERS: [&str; 4] = ["x-amz-content-sha256", "x-amz-date", "x-amz-security-token", "authorization"];

/// Signs requests with the credentials of a profile, or leaves them unsigned if there are no credentials.
pub(super) struct Signer {
    signer: Option<reqsign_core::Signer<Credential>>,
    /// Description of the settings that define the keys, for error messages; None if there are no keys.
    origin: Option<&'static str>,
}

impl Signer {
    pub(super) fn new(profile: &Profile, settings: &Settings) -> Self {
        let source = profile.credentials.as_ref();
        Self {
            signer: source.map(|source| signer_of(source, &profile.region, settings)),
            origin: source.map(Source::origin),
        }
    }
}

impl Authorization for Signer {
    fn headers(&self, method: &str, url: &str, others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        let Some(signer) = &self.signer else { return Ok(Vec::new()) };
        // The signature includes the hash of an empty body, because requests to S3 have no body.
        let mut request = Request::builder().method(method).uri(url).header(SIGNATURE_HEADERS[0], EMPTY_STRING_SHA256);
        for (name, value) in others.iter().filter(|(name, _)| name.starts_with("x-amz-")) {
            request = request.header(*name, *value);
        }
        let unusable =
            |error| Fault::new(StorageErrorKind::UnsupportedScheme, format!("this is not a valid URL: {error}"));
        let (mut parts, ()) = request.body(()).map_err(unusable)?.into_parts();
        block_on(signer.sign(&mut parts, None)).map_err(|error| fault_of(&error))?;
        let value = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        Ok(SIGNATURE_HEADERS.iter().filter_map(|name| Some((*name, value(*name)?.to_owned()))).collect())
    }

    /// Returns false, because a signature is valid for one host only.
    fn follows_redirects(&self) -> bool {
        false
    }

    fn advice(&self) -> String {
        match self.origin {
            Some(origin) => format!(
                "the keys are those of {origin}; region and server come from AWS_REGION and AWS_ENDPOINT_URL, or from \
                 ~/.aws/config"
            ),
            None => "the request was not signed, because there are no keys in AWS_ACCESS_KEY_ID and \
                     AWS_SECRET_ACCESS_KEY or in ~/.aws/credentials"
                .to_owned(),
        }
    }
}
