//! Addresses of XRootD servers.

use std::fmt;

use super::wire::PORT;
use crate::servers::failure::{Fault, Result};
use crate::servers::url::{bracketed, Url};
use crate::StorageErrorKind;

/// Address of a server, and how to connect to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether TLS is required.
    pub(super) secure: bool,
    /// User name for the login; None for the current user's name.
    pub(super) user: Option<String>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

/// Returns the server named in a URL, and the path on that server.
pub(super) fn entry_of(path: &str) -> Result<(Server, String)> {
    let url = Url::parse(path)?;
    if url.has_password {
        let reason = "a password in the URL is not supported; use a token or a certificate instead";
        return Err(Fault::new(StorageErrorKind::UnsupportedScheme, reason));
    }
    let secure = matches!(url.scheme.as_str(), "roots" | "xroots");
    let entry = Server { host: url.host.clone(), port: url.port.unwrap_or(PORT), secure, user: url.user.clone() };
    // `root://host//data/f` refers to /data/f. A single slash after the host is a common mistake, and is accepted.
    Ok((entry, format!("/{}", url.path.trim_start_matches('/'))))
}
