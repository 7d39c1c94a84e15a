//! Files of HDFS by WebHDFS: the NameNode says how large a file is, and redirects to the DataNodes that send its bytes.
//! See "WebHDFS REST API" in Hadoop's documentation.

use std::collections::HashMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use branchline_trace::journal;

use super::authorization::Authorization;
use super::client::{Answer, Client, DataRequest};
use super::location::{Location, Protocol};
use crate::limits::{
    FSSPEC_FILE_BYTES_MAX, PART_LINE_BYTES_MAX, S3_GAP_BYTES, WEBHDFS_BLOCKS_MAX, WEBHDFS_STATUS_BYTES_MAX,
};
use crate::secrets::{quoted, without_secrets};
use crate::servers::failure::{Fault, Result};
use crate::servers::small_file::read_small;
use crate::servers::url::Url;
use crate::settings::Settings;
use crate::{ByteRange, StorageErrorKind};

/// The web port of NameNodes since Hadoop 3.
const PORT: u16 = 9870;
const STATUS: &str = "?op=GETFILESTATUS";

/// A user whom the servers believe by name.
struct NamedUser;

impl Authorization for NamedUser {
    fn headers(&self, _method: &str, _url: &str, _others: &[(&str, &str)]) -> Result<Vec<(&'static str, String)>> {
        Ok(Vec::new())
    }

    fn follows_redirects(&self) -> bool {
        true
    }

    fn advice(&self) -> String {
        "the user is the name before the @ of the URL; for Kerberos take hdfs://, or fsspec+webhdfs:// with options of \
         fsspec such as FSSPEC_WEBHDFS_KERBEROS=true"
            .to_owned()
    }
}

/// Whether options for WebHDFS are set as fsspec has it, such as Kerberos or a proxy: then fsspec is to read it.
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

/// The place of `webhdfs://user@namenode:port/path`, the path as it stands. Its URL asks for the status of the file.
pub(super) fn webhdfs_location(path: &str) -> Result<Location> {
    let wrong = |reason: &str| Fault::new(StorageErrorKind::UnsupportedScheme, reason);
    let (scheme, rest) = path.split_once("://").ok_or_else(|| wrong("it is no URL"))?;
    let (authority, file) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let parsed = Url::parse(&format!("{scheme}://{authority}"))?;
    if parsed.has_password {
        return Err(wrong("a password in the URL is not used; leave it out, or read by fsspec: fsspec+webhdfs://..."));
    }
    if file.trim_matches('/').is_empty() {
        return Err(wrong("it names no file, as webhdfs://user@namenode:port/path does"));
    }
    let element = format!("webhdfs://{}", parsed.address());
    let server = Url { port: Some(parsed.port.unwrap_or(PORT)), ..parsed.clone() }.address();
    let user = parsed.user.map(|user| format!("&user.name={}", encoded(&user, b""))).unwrap_or_default();
    Ok(Location {
        path: without_secrets(path),
        element,
        url: format!("http://{server}/webhdfs/v1{}{STATUS}{user}", encoded(file, b"/=")),
        server,
        authorization: Box::new(NamedUser),
        protocol: Protocol::WebHdfs,
        gap_bytes: S3_GAP_BYTES,
    })
}

/// A text as part of a URL; only letters, digits, `-._~` and these others stand for themselves.
fn encoded(text: &str, others: &[u8]) -> String {
    let each = |byte: u8| match byte {
        b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if byte.is_ascii_alphanumeric() || others.contains(&byte) => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(each).collect()
}

/// The URL at the NameNode for a range of a file.
pub(super) fn url_of_range(location: &Location, range: ByteRange) -> String {
    location.url.replacen(STATUS, &format!("?op=OPEN&offset={}&length={}", range.offset, range.length), 1)
}

/// What the NameNode says of a file.
pub(super) struct Status {
    pub(super) size_bytes: u64,
    /// Milliseconds since 1970.
    pub(super) modified: u64,
    pub(super) block_bytes: u64,
}

/// Asks the NameNode.
pub(super) fn status_of(client: &Client, location: &Location, settings: &Settings) -> Result<(Status, Answer)> {
    let traced = journal::request("GET about", &location.path, &location.element, std::iter::empty());
    let bytes = WEBHDFS_STATUS_BYTES_MAX;
    let wanted = DataRequest { url: &location.url, range: None, bytes: Some(bytes), without_body: false, traced };
    let mut answer = client.fetch(wanted, &*location.authorization, settings)?;
    if answer.status() != 200 {
        return Err(refusal(&mut answer, location));
    }
    let mut text = Vec::new();
    let read = answer.body().take(bytes).read_to_end(&mut text);
    read.map_err(|error| answer.broken(&error))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    if text_in(&text, "type") == Some("DIRECTORY") {
        return Err(Fault::new(StorageErrorKind::NotAFile, "it is a directory, not a file"));
    }
    let number = |name: &str| number_in(&text, name).ok_or_else(|| answer.protocol_fault("no status of a file"));
    let (size_bytes, modified) = (number("length")?, number("modificationTime")?);
    let block_bytes = number("blockSize")?;
    Ok((Status { size_bytes, modified, block_bytes }, answer))
}

/// The error for an answer with another status than the expected one: servers name an exception of Java. The status 403
/// says nothing by itself: it is that of every trouble with a block, which another DataNode may have whole.
pub(super) fn refusal(answer: &mut Answer, location: &Location) -> Fault {
    let status = answer.status();
    let mut text = Vec::new();
    if answer.header("content-type").is_some_and(|kind| kind.contains("json")) {
        // A part of it is enough: it only makes the message better.
        let _ = answer.body().take(PART_LINE_BYTES_MAX as u64).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text).into_owned();
    let Some(exception) = text_in(&text, "exception") else { return answer.refusal(&*location.authorization) };
    let server = answer.server();
    let message = text_in(&text, "message").unwrap_or_default();
    let message = message.split("\\n").next().unwrap_or_default();
    let said = quoted(format!("{exception}: {message}").as_bytes());
    let kind = match exception {
        "FileNotFoundException" => {
            return Fault::new(StorageErrorKind::NotFound, format!("there is no such file at {server}"));
        }
        "AccessControlException" | "AuthorizationException" | "InvalidToken" | "SecurityException" => {
            let advice = location.authorization.advice();
            let reason = format!("{server} does not let you read it: {said}; {advice}");
            return Fault::new(StorageErrorKind::Permission, reason);
        }
        // As the servers say where a range begins behind the end of the file.
        _ if message.contains("out of the range") => return answer.changed("it has become shorter"),
        _ if status == 403 || status >= 500 => StorageErrorKind::Unreachable,
        _ => StorageErrorKind::Refused,
    };
    Fault::new(kind, format!("{server} refused with status {status}: {said}"))
}

/// What follows a name in an object of JSON. A quote inside of a text has a backslash, so no text looks like a name.
fn value_in<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    json.split_once(&format!("\"{name}\":")).map(|(_, rest)| rest.trim_start())
}

fn number_in(json: &str, name: &str) -> Option<u64> {
    let value = value_in(json, name)?;
    value.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// A text, up to its first quote, as it is written.
fn text_in<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    value_in(json, name)?.strip_prefix('"')?.split('"').next()
}

/// Where the NameNode redirected us to for the blocks of a file.
pub(super) struct DataNodes {
    block_bytes: u64,
    urls: Mutex<HashMap<u64, String>>,
}

impl DataNodes {
    pub(super) fn of(status: &Status) -> Self {
        Self { block_bytes: status.block_bytes.max(1), urls: Mutex::default() }
    }

    /// The URL at the DataNode that sent bytes of the same block before.
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

/// The same URL for another range.
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
        let status = Status { size_bytes: 300, modified: 0, block_bytes: 100 };
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
    fn answers_that_are_no_status_have_no_numbers() {
        let json = r#"{"FileStatus":{"owner":"a\"length\":7","length": 12,"type":"FILE","blockSize":-1}}"#;
        assert_eq!(number_in(json, "length"), Some(12));
        assert_eq!(text_in(json, "type"), Some("FILE"));
        assert_eq!(number_in(json, "blockSize"), None);
        assert_eq!(number_in(json, "modificationTime"), None);
        assert_eq!(number_in(r#"{"length":99999999999999999999}"#, "length"), None);
        assert_eq!(number_in(r#"{"length":"#, "length"), None);
        assert_eq!(text_in(r#"{"type":"#, "type"), None);
    }
}
