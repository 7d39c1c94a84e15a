//! HDFS files over WebHDFS. The NameNode reports the size of a file, and redirects reads to the DataNodes that store
//! the bytes. See "WebHDFS REST API" in the Hadoop documentation.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use branchline_trace::journal;
use serde::Deserialize;

use super::authorization::Authorization;
use super::client::{Answer, Client, DataRequest};
use super::location::{Location, Protocol};
use crate::limits::{FSSPEC_FILE_BYTES_MAX, S3_GAP_BYTES, WEBHDFS_ANSWER_BYTES_MAX, WEBHDFS_BLOCKS_MAX};
use crate::secrets::{quoted, without_secrets};
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::servers::url::{percent_encoded, Url};
use crate::settings::Settings;
use crate::{ByteRange, StorageErrorKind};

/// Default web port of NameNodes since Hadoop 3.
const PORT: u16 = 9870;
const STATUS: &str = "?op=GETFILESTATUS";

/// Authorization by a user name that the servers trust without authentication.
struct NamedUser;

impl Authorization for NamedUser {
    fn headers(&self, _method: &str, _url: &str, _others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        Ok(Vec::new())
    }

    fn follows_redirects(&self) -> bool {
        true
    }

    fn advice(&self) -> String {
        "the user is the name before the @ of the URL; for Kerberos use hdfs://, or fsspec+webhdfs:// with options of \
         fsspec such as FSSPEC_WEBHDFS_KERBEROS=true"
            .to_owned()
    }
}

/// Returns whether fsspec is configured for WebHDFS, for example with Kerberos or a proxy. If so, fsspec reads the
/// file.
pub(crate) fn is_set_for_fsspec() -> bool {
    let is_meant = |name: &std::ffi::OsStr| name.to_string_lossy().to_ascii_uppercase().starts_with("FSSPEC_WEBHDFS");
    if std::env::vars_os().any(|(name, _)| is_meant(&name)) {
        return true;
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".config/fsspec"));
    let folder = std::env::var_os("FSSPEC_CONFIG_DIR").map(PathBuf::from).or_else(home);
    let mut files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let is_named = |file: std::fs::DirEntry| {
        let text = read_small(&file.path(), FSSPEC_FILE_BYTES_MAX).unwrap_or_default();
        String::from_utf8_lossy(&text).to_ascii_lowercase().contains("webhdfs")
    };
    files.any(is_named)
}

/// Parses `webhdfs://user@namenode:port/path`, whose path is not escaped. The returned location's URL requests the file
/// status.
pub(super) fn webhdfs_location(path: &str) -> Result<Location> {
    let wrong = |reason: &str| Fault::new(StorageErrorKind::UnsupportedScheme, reason);
    let (scheme, rest) = path.split_once("://").ok_or_else(|| wrong("it is not a URL"))?;
    let (authority, file) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let parsed = Url::parse(&format!("{scheme}://{authority}"))?;
    if parsed.has_password {
        return Err(wrong("a password in the URL is not supported; omit it, or use fsspec: fsspec+webhdfs://..."));
    }
    if file.trim_matches('/').is_empty() {
        return Err(wrong("it names no file; write webhdfs://user@namenode:port/path"));
    }
    let element = format!("webhdfs://{}", parsed.address());
    let server = Url { port: Some(parsed.port.unwrap_or(PORT)), ..parsed.clone() }.address();
    let user = parsed.user.map(|user| format!("&user.name={}", percent_encoded(&user, b""))).unwrap_or_default();
    Ok(Location {
        path: without_secrets(path),
        element,
        url: format!("http://{server}/webhdfs/v1{}{STATUS}{user}", percent_encoded(file, b"/=")),
        server,
        authorization: Box::new(NamedUser),
        protocol: Protocol::WebHdfs,
        gap_bytes: S3_GAP_BYTES,
    })
}

/// Returns the NameNode's URL for reading a range of a file.
pub(super) fn url_of_range(location: &Location, range: ByteRange) -> String {
    location.url.replacen(STATUS, &format!("?op=OPEN&offset={}&length={}", range.offset, range.length), 1)
}

/// File status, as reported by the NameNode.
#[derive(Deserialize)]
pub(super) struct Status {
    #[serde(rename = "length")]
    pub(super) size_bytes: u64,
    /// Modification time in milliseconds since 1970.
    #[serde(rename = "modificationTime")]
    pub(super) modified: u64,
    #[serde(rename = "blockSize")]
    pub(super) block_bytes: u64,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StatusAnswer {
    file_status: Status,
}

/// The Java exception in the body of an error response.
#[derive(Deserialize)]
struct RemoteException {
    exception: String,
    /// Message of the exception. None if the exception has no message, in which case servers send null.
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RefusalAnswer {
    remote_exception: RemoteException,
}

/// Requests the status of a file from the NameNode, and returns the status with the response.
pub(super) fn status_of(client: &Client, location: &Location, settings: &Settings) -> Result<(Status, Answer)> {
    let traced = journal::request("GET about", &location.path, &location.element, std::iter::empty());
    let bytes = WEBHDFS_ANSWER_BYTES_MAX;
    let wanted = DataRequest { url: &location.url, range: None, bytes: Some(bytes), without_body: false, traced };
    let mut answer = client.fetch(wanted, &*location.authorization, settings)?;
    if answer.status() != 200 {
        return Err(refusal(&mut answer, location));
    }
    let mut json = Vec::new();
    let read = answer.body().take(bytes).read_to_end(&mut json);
    read.map_err(|error| answer.broken(&error))?;
    let status = parsed_status(&json).ok_or_else(|| answer.protocol_fault("an invalid file status"))?;
    if status.kind == "DIRECTORY" {
        return Err(Fault::new(StorageErrorKind::NotAFile, "it is a directory, not a file"));
    }
    Ok((status, answer))
}

fn parsed_status(json: &[u8]) -> Option<Status> {
    serde_json::from_slice(json).ok().map(|answer: StatusAnswer| answer.file_status)
}

fn parsed_exception(json: &[u8]) -> Option<RemoteException> {
    serde_json::from_slice(json).ok().map(|answer: RefusalAnswer| answer.remote_exception)
}

/// Builds the error for an unexpected status code from the Java exception in the response. The status code is not
/// enough: 403 is also sent for damaged or missing blocks, which another DataNode may have.
pub(super) fn refusal(answer: &mut Answer, location: &Location) -> Fault {
    let status = answer.status();
    let mut json = Vec::new();
    if answer.header("content-type").is_some_and(|kind| kind.contains("json")) {
        // If the body is incomplete, the message is only less precise.
        let _ = answer.body().take(WEBHDFS_ANSWER_BYTES_MAX).read_to_end(&mut json);
    }
    let Some(RemoteException { exception, message }) = parsed_exception(&json) else {
        return answer.refusal(&*location.authorization);
    };
    let server = answer.server();
    // Only the first line is used, because Java appends a stack trace in further lines.
    let message = message.as_deref().and_then(|text| text.lines().next()).unwrap_or_default();
    let said = quoted(format!("{exception}: {message}").as_bytes());
    let kind = match exception.as_str() {
        "FileNotFoundException" => {
            return Fault::new(StorageErrorKind::NotFound, format!("there is no such file at {server}"));
        }
        "AccessControlException" | "AuthorizationException" | "InvalidToken" | "SecurityException" => {
            let advice = location.authorization.advice();
            let reason = format!("{server} does not let you read it: {said}; {advice}");
            return Fault::new(StorageErrorKind::Permission, reason);
        }
        // Servers send this message for a range beyond the end of the file.
        _ if message.contains("out of the range") => return answer.changed("it has become shorter"),
        _ if status == 403 || status >= 500 => StorageErrorKind::Unreachable,
        _ => StorageErrorKind::Refused,
    };
    Fault::new(kind, format!("{server} refused the request with status {status}: {said}"))
}

/// URLs of the DataNodes to which the NameNode redirected reads, one for each block of a file.
pub(super) struct DataNodes {
    block_bytes: u64,
    urls: Mutex<HashMap<u64, String>>,
}

impl DataNodes {
    pub(super) fn of(status: &Status) -> Self {
        Self { block_bytes: status.block_bytes.max(1), urls: Mutex::default() }
    }

    /// Returns the URL for reading a range from the DataNode that last sent bytes of the same block; None if unknown.
    pub(super) fn url(&self, range: ByteRange) -> Option<String> {
        let urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        urls.get(&(range.offset / self.block_bytes)).map(|url| with_range(url, range))
    }

    pub(super) fn learn(&self, range: ByteRange, url: Option<String>) {
        let mut urls = self.urls.lock().unwrap_or_else(PoisonError::into_inner);
        let block = range.offset / self.block_bytes;
        match url {
            Some(url) if urls.len() < WEBHDFS_BLOCKS_MAX => urls.insert(block, url),
            _ => urls.remove(&block),
        };
    }
}

/// Returns `url` with another range in the query.
fn with_range(url: &str, range: ByteRange) -> String {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let is_kept = |one: &&str| !one.is_empty() && !one.starts_with("offset=") && !one.starts_with("length=");
    let kept: String = query.split('&').filter(is_kept).map(|one| format!("{one}&")).collect();
    format!("{place}?{kept}offset={}&length={}", range.offset, range.length)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_as_it_stands() {
        let location = webhdfs_location("webhdfs://me&you@name.node/a b/%20?=#.root").unwrap();
        let path = "/webhdfs/v1/a%20b/%2520%3F=%23.root";
        assert_eq!(location.url, format!("http://name.node:9870{path}?op=GETFILESTATUS&user.name=me%26you"));
        assert_eq!(location.element, "webhdfs://name.node");
        let url = url_of_range(&location, ByteRange::new(7, 9));
        assert_eq!(url, format!("http://name.node:9870{path}?op=OPEN&offset=7&length=9&user.name=me%26you"));
        for wrong in ["webhdfs://h", "webhdfs://h/", "webhdfs:///f", "webhdfs://u:p@h/f", "webhdfs://h:0/f"] {
            assert!(webhdfs_location(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_ranges_of_a_block_come_from_the_same_data_node() {
        let status = Status { size_bytes: 300, modified: 0, block_bytes: 100, kind: "FILE".to_owned() };
        let nodes = DataNodes::of(&status);
        let url = "http://d:9864/webhdfs/v1/f?op=OPEN&length=10&namenoderpcaddress=n:8020&offset=100";
        nodes.learn(ByteRange::new(100, 10), Some(url.to_owned()));
        let other = "http://d:9864/webhdfs/v1/f?op=OPEN&namenoderpcaddress=n:8020&offset=199&length=5";
        assert_eq!(nodes.url(ByteRange::new(199, 5)).unwrap(), other);
        assert_eq!(nodes.url(ByteRange::new(200, 5)), None);
        nodes.learn(ByteRange::new(100, 10), None);
        assert_eq!(nodes.url(ByteRange::new(199, 5)), None);
    }

    #[test]
    fn a_status_is_read_as_json() {
        let status = |json: &str| parsed_status(json.as_bytes()).map(|status| (status.size_bytes, status.kind));
        let file = |length: u64| Some((length, "FILE".to_owned()));
        let rest = r#""modificationTime":1,"blockSize":2,"type":"FILE""#;
        assert_eq!(status(&format!(r#"{{"FileStatus":{{"owner":"a\"length\":7","length" : 12,{rest}}}}}"#)), file(12));
        // A value that contains an escaped quote and looks like a JSON member, and a member name written with escapes.
        let names = r#""pathSuffix":"\\\\\",\"length\":7,\"","group":"\u00e9\ud83d\ude00","\u006cength":13"#;
        assert_eq!(status(&format!(r#"{{"FileStatus":{{{names},{rest}}}}}"#)), file(13));
        assert_eq!(status(&format!(r#"{{"FileStatus":{{"other":{{"length":7}},"length":14,{rest}}}}}"#)), file(14));
        for wrong in [
            format!(r#"{{"FileStatus":{{{rest}}}}}"#),
            format!(r#"{{"length":1,{rest}}}"#),
            format!(r#"{{"FileStatus":{{"length":-1,{rest}}}}}"#),
            format!(r#"{{"FileStatus":{{"length":"1",{rest}}}}}"#),
            format!(r#"{{"FileStatus":{{"length":99999999999999999999,{rest}}}}}"#),
            r#"{"FileStatus":{"length":"#.to_owned(),
            "[".repeat(100_000),
        ] {
            assert_eq!(status(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_refusal_is_read_as_json() {
        let said = |json: &str| parsed_exception(json.as_bytes()).map(|said| (said.exception, said.message));
        let json = r#"{"RemoteException":{"message":"no \"exception\": \\ \u00e9\nat x","exception":"IOException"}}"#;
        assert_eq!(said(json), Some(("IOException".to_owned(), Some("no \"exception\": \\ \u{e9}\nat x".to_owned()))));
        assert_eq!(said(r#"{"RemoteException":{"exception":"E","message":null}}"#), Some(("E".to_owned(), None)));
        assert_eq!(said(r#"{"exception":"E"}"#), None);
    }
}
