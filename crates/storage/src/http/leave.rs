//! By whose leave requests are made: what they show of the user to a server.

use crate::fault::Result;
use crate::s3::Signer;
use crate::token;
use crate::url::Url;

/// What requests for one file show.
pub(crate) enum Leave {
    /// The user's token, to this host and port alone.
    Token(String),
    /// A signature of S3, or none where the user has no keys.
    Signature(Signer),
}

/// The words of S3 for keys that are wrong or too old, which come with statuses of other meanings.
const LACKING: &[&str] = &["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "RequestTimeTooSkewed"];

impl Leave {
    /// The header lines for a request of `url` that has these already.
    pub(super) fn headers(
        &self,
        method: &str,
        url: &str,
        others: &[(&str, &str)],
    ) -> Result<Vec<(&'static str, String)>> {
        match self {
            Self::Signature(signer) => Ok(signer.headers(method, others)),
            Self::Token(host) => {
                let parsed = Url::parse(url)?;
                // Over a connection that others can listen to, a token would soon be theirs.
                if parsed.address() != *host || !(parsed.scheme == "https" || parsed.is_loopback()) {
                    return Ok(Vec::new());
                }
                let token = token::bearer_token()?;
                Ok(token.into_iter().map(|token| ("Authorization", format!("Bearer {token}"))).collect())
            }
        }
    }

    /// Whether a request may be answered by another server than the one that was asked.
    pub(super) fn follows_redirects(&self) -> bool {
        matches!(self, Self::Token(_))
    }

    /// What may be wrong if a server does not let the user read.
    pub(super) fn advice(&self) -> String {
        match self {
            Self::Signature(signer) => signer.advice(),
            Self::Token(_) => "it may want a token (BEARER_TOKEN or BEARER_TOKEN_FILE, sent over https only) or a \
                               certificate (X509_USER_CERT), or yours has expired"
                .to_owned(),
        }
    }

    /// Whether this word of a server says that the leave is none.
    pub(super) fn is_lacking(code: &str) -> bool {
        LACKING.contains(&code)
    }
}
