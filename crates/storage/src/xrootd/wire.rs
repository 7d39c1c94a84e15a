//! Binary encoding of requests and responses in XRootD protocol 5.2.0. All numbers are big-endian.

use crate::limits::{ANSWER_BYTES_MAX, LISTING_BYTES_MAX};
use crate::secrets::quoted;
use crate::servers::failure::Fault;
use crate::servers::url::split_address;
use crate::StorageErrorKind;

/// Default port of XRootD servers.
pub(super) const PORT: u16 = 1094;
/// Size of a response header in bytes.
pub(super) const HEADER_BYTES: usize = 8;
/// Size of the header of a range in a vector read, in bytes.
pub(super) const SEGMENT_HEADER_BYTES: usize = 16;
/// Size of a page in a read with checksums, in bytes.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Size of the header before the pages of a read with checksums, in bytes. The header contains a checksum, stream,
/// request, kind, length and offset.
pub(super) const PAGES_HEADER_BYTES: usize = 24;

/// First message that a client sends: the 32-bit numbers `0 0 0 4 2012`.
pub(super) const HANDSHAKE: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 220];

const PROTOCOL_VERSION: i32 = 0x520;

// Request codes.
const DIRLIST: u16 = 3004;
const LOCATE: u16 = 3027;
const AUTH: u16 = 3000;
const QUERY: u16 = 3001;
const CLOSE: u16 = 3003;
const PROTOCOL: u16 = 3006;
const LOGIN: u16 = 3007;
const OPEN: u16 = 3010;
const READ: u16 = 3013;
const READV: u16 = 3025;
const BIND: u16 = 3024;
const PGREAD: u16 = 3030;

/// Code for querying the checksum of a file.
const CHECKSUM: u16 = 3;

// Status codes of responses.
pub(super) const OK: u16 = 0;
pub(super) const OK_SO_FAR: u16 = 4000;
pub(super) const ATTENTION: u16 = 4001;
pub(super) const AUTH_MORE: u16 = 4002;
pub(super) const ERROR: u16 = 4003;
pub(super) const REDIRECT: u16 = 4004;
pub(super) const WAIT: u16 = 4005;
pub(super) const WAIT_FOR_ANSWER: u16 = 4006;
pub(super) const STATUS: u16 = 4007;
/// Code of attention messages that contain a deferred response.
pub(super) const LATE_ANSWER: u32 = 5008;

/// Flags for features and requirements of a server, in the response to `kXR_protocol`.
pub(super) mod flags {
    pub(in super::super) const DATA_SERVER: u32 = 0x0000_0001;
    pub(in super::super) const REDIRECTOR: u32 = 0x0000_0002;
    pub(in super::super) const PAGES: u32 = 0x0020_0000;
    pub(in super::super) const TLS_AFTER_LOGIN: u32 = 0x0800_0000;
    pub(in super::super) const TLS_NOW: u32 = 0x4000_0000;
    pub(in super::super) const TLS_THERE: u32 = 0x8000_0000;
}

/// A request. The stream ID is filled in when the request is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request(Vec<u8>);

impl Request {
    fn new(code: u16, arguments: [u8; 16], payload: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(24 + payload.len());
        bytes.extend([0, 0]);
        bytes.extend(code.to_be_bytes());
        bytes.extend(arguments);
        bytes.extend((payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        Self(bytes)
    }

    /// Creates a request for the server's features.
    pub(super) fn protocol(wants_tls: bool) -> Self {
        const WITH_SECURITY: u8 = 1;
        const CAN_TLS: u8 = 2;
        const WANTS_TLS: u8 = 4;
        const LOGIN_FOLLOWS: u8 = 3;
        let mut arguments = [0; 16];
        arguments[..4].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
        arguments[4] = WITH_SECURITY | CAN_TLS | if wants_tls { WANTS_TLS } else { 0 };
        arguments[5] = LOGIN_FOLLOWS;
        Self::new(PROTOCOL, arguments, &[])
    }

    pub(super) fn login(user: &str) -> Self {
        // Flags for: full URLs in redirects, several protocols, redirects of reads, IPv4 and IPv6.
        const ABILITIES: u8 = 1 | 2 | 4 | 8;
        const VERSION_5: u8 = 5;
        let mut arguments = [0; 16];
        arguments[..4].copy_from_slice(&std::process::id().to_be_bytes());
        let name = user.as_bytes();
        let length = name.len().min(8);
        arguments[4..4 + length].copy_from_slice(&name[..length]);
        arguments[13] = ABILITIES;
        arguments[14] = VERSION_5;
        Self::new(LOGIN, arguments, &[])
    }

    /// Creates a request that binds its connection to the session with ID `login`, as an additional data connection.
    pub(super) fn bind(login: [u8; 16]) -> Self {
        Self::new(BIND, login, &[])
    }

    /// Creates a request that authenticates with `protocol`, whose name has up to four letters.
    pub(super) fn auth(protocol: &str, credentials: &[u8]) -> Self {
        let mut arguments = [0; 16];
        let length = protocol.len().min(4);
        arguments[12..12 + length].copy_from_slice(&protocol.as_bytes()[..length]);
        Self::new(AUTH, arguments, credentials)
    }

    /// Creates a query for the values of settings. `names` are the names, separated by spaces.
    pub(super) fn settings(names: &str) -> Self {
        const CONFIG: u8 = 7;
        let mut arguments = [0; 16];
        arguments[1] = CONFIG;
        Self::new(QUERY, arguments, names.as_bytes())
    }

    /// Creates a query for a file's checksum, of any kind that the server provides.
    pub(super) fn checksum(path: &str) -> Self {
        let mut arguments = [0; 16];
        arguments[..2].copy_from_slice(&CHECKSUM.to_be_bytes());
        Self::new(QUERY, arguments, path.as_bytes())
    }

    /// Creates a query for the servers that have a path.
    pub(super) fn locate(path: &str) -> Self {
        const NAMES: u16 = 0x0100;
        let mut arguments = [0; 16];
        arguments[..2].copy_from_slice(&NAMES.to_be_bytes());
        Self::new(LOCATE, arguments, path.as_bytes())
    }

    /// Creates a request that lists a folder, including the status of each entry.
    pub(super) fn list(path: &str) -> Self {
        const WITH_STATUS: u8 = 2;
        let mut arguments = [0; 16];
        arguments[15] = WITH_STATUS;
        Self::new(DIRLIST, arguments, path.as_bytes())
    }

    /// Creates a request that opens a file for reading. The response contains the size of the file.
    pub(super) fn open(path: &str) -> Self {
        const FOR_READING: u16 = 0x0010;
        const WITH_STATUS: u16 = 0x0400;
        let mut arguments = [0; 16];
        arguments[2..4].copy_from_slice(&(FOR_READING | WITH_STATUS).to_be_bytes());
        Self::new(OPEN, arguments, path.as_bytes())
    }

    pub(super) fn close(handle: Handle) -> Self {
        let mut arguments = [0; 16];
        arguments[..4].copy_from_slice(&handle);
        Self::new(CLOSE, arguments, &[])
    }

    /// Creates a request that reads a range. The response arrives on the data connection with ID `path`; 0 is the
    /// connection that sends the request.
    pub(super) fn read(handle: Handle, offset: u64, length: u32, path: u8) -> Self {
        let more: &[u8] = if path == 0 { &[] } else { &[path, 0, 0, 0, 0, 0, 0, 0] };
        Self::new(READ, Self::range(handle, offset, length), more)
    }

    /// Creates a request that reads a range like `read`, but with a checksum for each page.
    pub(super) fn read_pages(handle: Handle, offset: u64, length: u32, path: u8) -> Self {
        let more: &[u8] = if path == 0 { &[] } else { &[path, 0] };
        Self::new(PGREAD, Self::range(handle, offset, length), more)
    }

    /// Creates a vector read of several ranges, each given as offset and length.
    pub(super) fn read_many(handle: Handle, ranges: impl Iterator<Item = (u64, u32)>) -> Self {
        let mut list = Vec::new();
        for (offset, length) in ranges {
            list.extend(segment_header(handle, offset, length));
        }
        Self::new(READV, [0; 16], &list)
    }

    fn range(handle: Handle, offset: u64, length: u32) -> [u8; 16] {
        let mut arguments = [0; 16];
        arguments[..4].copy_from_slice(&handle);
        arguments[4..12].copy_from_slice(&offset.to_be_bytes());
        arguments[12..].copy_from_slice(&length.to_be_bytes());
        arguments
    }

    /// Sets the stream ID, and returns the bytes to send.
    pub(super) fn on_stream(&mut self, stream: u16) -> &[u8] {
        self.0[..2].copy_from_slice(&stream.to_be_bytes());
        &self.0
    }

    /// Returns whether the request contains an authorization token, which must not be sent to untrusted servers.
    pub(super) fn has_secrets(&self) -> bool {
        self.0.windows(6).any(|six| six.eq_ignore_ascii_case(b"authz="))
    }

    /// Returns whether the request's path has a query, which may contain secrets.
    pub(super) fn has_query(&self) -> bool {
        self.0.get(24..).is_some_and(|path| path.contains(&b'?'))
    }

    /// Returns the maximum size of the response in bytes, unless the response is file data.
    pub(super) fn answer_bytes_max(&self) -> usize {
        let code = self.0.get(2..4).unwrap_or_default();
        if code == DIRLIST.to_be_bytes() || code == LOCATE.to_be_bytes() {
            LISTING_BYTES_MAX as usize
        } else {
            ANSWER_BYTES_MAX as usize
        }
    }

    /// Returns whether the request fails when the server asks the client to wait. This is the case for checksums, since
    /// the server would have to read the whole file.
    pub(super) fn takes_no_wait(&self) -> bool {
        self.0.get(2..6).is_some_and(|start| start == [QUERY.to_be_bytes(), CHECKSUM.to_be_bytes()].concat())
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Handle of a file that is open on a connection.
pub(super) type Handle = [u8; 4];

/// Encodes the header of a range, which is used in requests and responses of vector reads.
pub(super) fn segment_header(handle: Handle, offset: u64, length: u32) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[..4].copy_from_slice(&handle);
    header[4..8].copy_from_slice(&length.to_be_bytes());
    header[8..].copy_from_slice(&offset.to_be_bytes());
    header
}

/// A parsed response header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) stream: u16,
    pub(super) status: u16,
    pub(super) length: u32,
}

impl Header {
    pub(super) fn parse(bytes: [u8; HEADER_BYTES]) -> Self {
        let [a, b, c, d, length @ ..] = bytes;
        Self {
            stream: u16::from_be_bytes([a, b]),
            status: u16::from_be_bytes([c, d]),
            length: u32::from_be_bytes(length),
        }
    }
}

/// Reads the 32-bit number at offset `at` of a response; returns None if the response is too short.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// Parsed response to an open request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) handle: Handle,
    pub(super) size_bytes: u64,
    /// ID of the file on the server, and modification time. Identifies the version of the file.
    pub(super) version: String,
}

impl Opened {
    /// Parses the response to an open request: the handle, 8 bytes about compression, and the string `id size flags
    /// time`.
    pub(super) fn parse(answer: &[u8]) -> Option<Self> {
        let handle = *answer.first_chunk()?;
        let text = answer.get(12..)?.split(|byte| *byte == 0).next()?;
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (id, size, _flags, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self { handle, size_bytes: size.parse().ok()?, version: format!("{id} {time}") })
    }
}

/// Server and path to which a request is redirected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    /// Query to append to the path on the new server.
    pub(super) query: Option<String>,
    /// Whether the new server requires TLS; None if the response does not state this.
    pub(super) secure: Option<bool>,
    /// Path on the new server, if it differs from the requested path.
    pub(super) path: Option<String>,
}

impl Target {
    /// Parses the body of a redirect: a port and `host?query?token`, or a negative port and a full URL.
    pub(super) fn parse(answer: &[u8]) -> Option<Self> {
        let port = i32::from_be_bytes(*answer.first_chunk()?);
        let text = std::str::from_utf8(answer.get(4..)?).ok()?.trim_end_matches('\0');
        let (place, rest) = text.split_once('?').unwrap_or((text, ""));
        let query = rest.split('?').next().filter(|query| !query.is_empty()).map(str::to_owned);
        if port >= 0 {
            let host = place.trim_start_matches('[').trim_end_matches(']').to_owned();
            let port = if port == 0 { PORT } else { u16::try_from(port).ok()? };
            split_address(&crate::servers::url::bracketed(&host))?;
            return Some(Self { host, port, query, secure: None, path: None });
        }
        let (scheme, rest) = place.split_once("://")?;
        let secure = matches!(scheme, "roots" | "xroots");
        if !secure && !matches!(scheme, "root" | "xroot") {
            return None;
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = split_address(authority.rsplit_once('@').map_or(authority, |(_, address)| address))?;
        let path = Some(path).filter(|path| !path.is_empty()).map(str::to_owned);
        Some(Self { host: host.to_owned(), port: port.unwrap_or(PORT), query, secure: Some(secure), path })
    }
}

/// Builds the failure for a response with status `ERROR`. `answer` contains an error code and a message.
pub(super) fn fault_of(server: &str, answer: &[u8]) -> Fault {
    use StorageErrorKind::{Io, NotAFile, NotFound, Permission, Refused, Unreachable};
    let Some(code) = number(answer, 0) else { return Fault::protocol(server, "an error without a number") };
    let words = quoted(answer.get(4..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default());
    let says = format!("{server} says: {words} (error {code})");
    match code {
        3011 => Fault::new(NotFound, format!("there is no such file at {server}: {words}")),
        3010 | 3030 => Fault::new(Permission, format!("you have no permission to read it: {says}")),
        3015 | 3016 => Fault::new(NotAFile, format!("it is a directory, not a file: {says}")),
        // FSError, IOError, NoMemory, ServerError, Cancelled, Overloaded and timeouts, which are all temporary.
        3005 | 3007 | 3008 | 3012 | 3017 | 3024 | 3034 | 3035 => Fault::new(Io, says),
        // No server has the file at the moment, but a server may come back.
        3014 | 3029 => Fault::new(Unreachable, says),
        // FileNotOpen and ChkSumErr, for which reopening the file may help.
        3004 | 3019 => Fault::new(Io, says),
        _ => Fault::new(Refused, says),
    }
}

/// Returns whether the error says that the server does not support the request.
pub(super) fn is_unknown_request(answer: &[u8]) -> bool {
    matches!(number(answer, 0), Some(3006 | 3013))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_24_bytes_and_their_payload() {
        let mut request = Request::read([1, 2, 3, 4], 0x0102_0304_0506, 7, 0);
        assert_eq!(
            request.on_stream(0x1122),
            [0x11, 0x22, 0x0b, 0xc5, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 7, 0, 0, 0, 0]
        );
        let mut request = Request::read_many([9; 4], [(5, 6)].into_iter());
        assert_eq!(request.on_stream(0)[20..], [0, 0, 0, 16, 9, 9, 9, 9, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 5]);
    }

    #[test]
    fn an_open_is_answered_with_handle_size_and_version() {
        let opened = Opened::parse(b"abcd\0\0\0\0\0\0\0\0id7 5000 51 1700000000\0").unwrap();
        assert_eq!((opened.handle, opened.size_bytes), (*b"abcd", 5000));
        assert_eq!(opened.version, "id7 1700000000");
        for wrong in [
            &b""[..],
            b"abcd",
            b"abcd\0\0\0\0\0\0\0\0",
            b"abcd\0\0\0\0\0\0\0\0id7 -5 51 17",
            b"abcd\0\0\0\0\0\0\0\0\xff",
        ] {
            assert_eq!(Opened::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn redirects_are_read() {
        let parse = |port: i32, text: &str| Target::parse(&[&port.to_be_bytes()[..], text.as_bytes()].concat());
        let target = parse(1095, "node.site?a=b&c=d?token\0").unwrap();
        assert_eq!((target.host.as_str(), target.port, target.query.as_deref()), ("node.site", 1095, Some("a=b&c=d")));
        assert_eq!(parse(0, "[::1]").unwrap().host, "::1");
        let target = parse(-1, "roots://node:7//data/f?x").unwrap();
        assert_eq!((target.port, target.secure, target.path.as_deref()), (7, Some(true), Some("/data/f")));
        for (port, text) in [(1, ""), (70_000, "h"), (-1, "h"), (-1, "file:///x"), (-1, "root://:1/f"), (1, "a/b")] {
            assert_eq!(parse(port, text), None, "{text}");
        }
        assert_eq!(Target::parse(b"\0\0"), None);
    }

    #[test]
    fn errors_are_sorted_and_quoted() {
        let fault = |code: u32, words: &str| fault_of("h:1", &[&code.to_be_bytes()[..], words.as_bytes()].concat());
        assert_eq!(fault(3011, "no file\0").reason, "there is no such file at h:1: no file");
        assert_eq!(fault(3010, "no").kind, StorageErrorKind::Permission);
        assert!(fault(3024, "busy").retry_may_help && !fault(3000, "what").retry_may_help);
        assert_eq!(fault_of("h:1", b"").kind, StorageErrorKind::Protocol);
    }
}
