//! Authorizes requests with a token or with an S3 signature.

use crate::servers::failure::Result;
use crate::servers::token;
use crate::servers::url::Url;

/// Adds the user's credentials to requests for one file.
pub(crate) trait Authorization: Send + Sync {
    /// Returns the authorization headers for a request to `url`. The request already has the headers `others`.
    fn headers(&self, method: &str, url: &str, others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>>;

    /// Returns whether the request may be redirected to a server other than the one in the URL.
    fn follows_redirects(&self) -> bool;

    /// Returns a hint that is appended to the error when the server denies access.
    fn advice(&self) -> String;
}

/// S3 error codes for invalid or expired keys. Servers may send these codes with an unrelated status code.
const BAD_KEYS: &[&str] = &["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed"];

/// Returns whether an error code in the body of a response means that the user's keys or token are invalid.
pub(super) fn means_bad_keys(code: &str) -> bool {
    BAD_KEYS.contains(&code)
}

/// The user's bearer token, which is only sent to one host and port.
pub(super) struct BearerToken {
    pub(super) server: String,
}

impl Authorization for BearerToken {
    fn headers(&self, _method: &str, url: &str, _others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        let parsed = Url::parse(url)?;
        // The token is not sent without TLS, since anyone on the network could steal it.
        if parsed.address() != self.server || !(parsed.scheme == "https" || parsed.is_loopback()) {
            return Ok(Vec::new());
        }
        let token = token::bearer_token()?;
        Ok(token.into_iter().map(|token| ("Authorization", format!("Bearer {token}"))).collect())
    }

    fn follows_redirects(&self) -> bool {
        true
    }

    fn advice(&self) -> String {
        "it may want a token (BEARER_TOKEN or BEARER_TOKEN_FILE, sent over https only) or a certificate \
         (X509_USER_CERT), or yours has expired"
            .to_owned()
    }
}
