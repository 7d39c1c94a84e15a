//! Location of a file on an HTTP server, and requests for the file.

use branchline_trace::journal;

use super::authorization::{Authorization, BearerToken};
use super::client::{Answer, Client};
use crate::limits::REMOTE_GAP_BYTES;
use crate::secrets::without_secrets;
use crate::servers::failure::{Fault, Result};
use crate::servers::url::{escaped, Url};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Protocol spoken over HTTP. The protocols differ in their support for ranges and checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    S3,
    WebHdfs,
}

/// Location of a file or folder on a server.
pub(crate) struct Location {
    /// Path as given by the user, without secrets.
    pub(crate) path: String,
    /// Storage element's name in reports.
    pub(crate) element: String,
    /// URL with the scheme `http` or `https`, for WebDAV, S3 and WebHDFS too.
    pub(crate) url: String,
    /// Host and port of `url`.
    pub(crate) server: String,
    pub(crate) authorization: Box<dyn Authorization>,
    pub(crate) protocol: Protocol,
    /// Largest gap across which two ranges of the file are read as one.
    pub(crate) gap_bytes: u64,
}

impl Location {
    /// Sends a request without a body to this location.
    pub(super) fn request(
        &self,
        client: &Client,
        method: &'static str,
        headers: &[(&str, &str)],
        settings: &Settings,
    ) -> Result<Answer> {
        let traced = journal::request(method, &self.path, &self.element, std::iter::empty());
        client.call(method, &self.url, headers, &*self.authorization, traced, settings)
    }
}

/// Returns the location of an HTTP or WebDAV URL.
pub(super) fn http_location(path: &str) -> Result<Location> {
    let parsed = Url::parse(path)?;
    if parsed.user.is_some() {
        let reason = "a user name or password in the URL is not supported; use a token or a certificate instead";
        return Err(Fault::new(StorageErrorKind::UnsupportedScheme, reason));
    }
    let scheme = if matches!(parsed.scheme.as_str(), "https" | "davs") { "https" } else { "http" };
    let server = parsed.address();
    Ok(Location {
        path: without_secrets(path),
        element: format!("{}://{server}", parsed.scheme),
        url: format!("{scheme}://{server}{}", target(&parsed)),
        authorization: Box::new(BearerToken { server: server.clone() }),
        protocol: Protocol::Http,
        server,
        gap_bytes: REMOTE_GAP_BYTES,
    })
}

/// Returns the escaped path and query of a URL, for use in a request.
fn target(url: &Url) -> String {
    let path = if url.path.is_empty() { "/" } else { &url.path };
    let query = url.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    escaped(path.bytes().chain(query.bytes()))
}
