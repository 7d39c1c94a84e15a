//! How a request shows who the user is: with a token, or with a signature of S3.

use crate::servers::failure::Result;
use crate::servers::token;
use crate::servers::url::Url;

/// The user's credentials in requests for one file.
pub(crate) trait Authorization: Send + Sync {
    /// The header lines for a request of `url` that has these `others` already.
    fn headers(&self, method: &str, url: &str, others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>>;

    /// Whether another server than the one in the URL may answer the request.
    fn follows_redirects(&self) -> bool;

    /// A hint for the error that a server refuses the user.
    fn advice(&self) -> String;
}

/// The codes of S3 for keys that are wrong or too old. They come with statuses that mean something else.
const BAD_KEYS: &[&str] = &["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed"];

/// Whether an error code in the body of an answer says that the user's keys or token are not valid.
pub(super) fn means_bad_keys(code: &str) -> bool {
    BAD_KEYS.contains(&code)
}

/// The user's token, which is shown to one host and port alone.
pub(super) struct BearerToken {
    pub(super) server: String,
}

impl Authorization for BearerToken {
    fn headers(&self, _method: &str, url: &str, _others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        let parsed = Url::parse(url)?;
        // Without TLS anybody on the network could read and use the token.
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
