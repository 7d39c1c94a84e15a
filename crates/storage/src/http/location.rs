//! Where a file is at an HTTP server, and the requests for it.

use branchline_trace::journal;

use super::authorization::{Authorization, BearerToken};
use super::client::{Answer, Client};
use crate::limits::REMOTE_GAP_BYTES;
use crate::secrets::without_secrets;
use crate::servers::failure::{Fault, Result};
use crate::servers::url::{escaped, Url};
use crate::settings::Settings;
use crate::StorageErrorKind;

/// Which protocol a server speaks over HTTP: they differ in ranges and checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http,
    S3,
    WebHdfs,
}

/// A file or folder at a server.
pub(crate) struct Location {
    /// As the user gave it, without secrets.
    pub(crate) path: String,
    /// The storage element, as reports name it.
    pub(crate) element: String,
    /// With `http` or `https` for the schemes of WebDAV, S3 and WebHDFS.
    pub(crate) url: String,
    /// Host and port of `url`.
    pub(crate) server: String,
    pub(crate) authorization: Box<dyn Authorization>,
    pub(crate) protocol: Protocol,
    /// The gap up to which two ranges are better read as one.
    pub(crate) gap_bytes: u64,
}

impl Location {
    /// Makes a request without a body.
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

/// The place of a URL of HTTP or WebDAV.
pub(super) fn http_location(path: &str) -> Result<Location> {
    let parsed = Url::parse(path)?;
    if parsed.user.is_some() {
        let reason = "a name or password in the URL is not used; give a token or a certificate instead";
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

/// Path and query as they stand in a request.
fn target(url: &Url) -> String {
    let path = if url.path.is_empty() { "/" } else { &url.path };
    let query = url.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    escaped(path.bytes().chain(query.bytes()))
}
