//! An XRootD server by its address.

use std::fmt;

use super::wire::PORT;
use crate::servers::failure::{Fault, Result};
use crate::servers::url::{bracketed, Url};
use crate::StorageErrorKind;

/// A server, and how it is spoken to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Server {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether TLS is a must.
    pub(super) secure: bool,
    /// The name to log in with, if it is not that of the user.
    pub(super) user: Option<String>,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.host), self.port)
    }
}

/// The server that a URL names, and the path there.
pub(super) fn entry_of(path: &str) -> Result<(Server, String)> {
    let url = Url::parse(path)?;
    if url.has_password {
        let reason = "a password in the URL is not used; give a token or a certificate instead";
        return Err(Fault::new(StorageErrorKind::UnsupportedScheme, reason));
    }
    let secure = matches!(url.scheme.as_str(), "roots" | "xroots");
    let entry = Server { host: url.host.clone(), port: url.port.unwrap_or(PORT), secure, user: url.user.clone() };
    // `root://host//data/f` names /data/f; one slash is what people write who do not know that.
    Ok((entry, format!("/{}", url.path.trim_start_matches('/'))))
}
