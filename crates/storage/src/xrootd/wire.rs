//! Requests and answers as bytes (XRootD protocol 5.2.0). Numbers are big-endian.

use crate::limits::{ANSWER_BYTES_MAX, LISTING_BYTES_MAX};
use crate::secrets::quoted;
use crate::servers::failure::Fault;
use crate::servers::url::split_address;
use crate::StorageErrorKind;

/// Default port of servers.
pub(super) const PORT: u16 = 1094;
/// Bytes before each answer.
pub(super) const HEADER_BYTES: usize = 8;
/// Bytes before each segment of a vector read.
pub(super) const SEGMENT_HEADER_BYTES: usize = 16;
/// A page of a read with checksums.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes between the header and the pages: checksum, stream, request, kind, length, offset.
pub(super) const PAGES_HEADER_BYTES: usize = 24;

/// The first message of the client: the numbers `0 0 0 4 2012`.
pub(super) const HANDSHAKE: [u8; 20] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 7, 220];

const PROTOCOL_VERSION: i32 = 0x520;

// Requests.
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

/// The kind of a query: the checksum of a file.
const CHECKSUM: u16 = 3;

// Kinds of answers.
pub(super) const OK: u16 = 0;
pub(super) const OK_SO_FAR: u16 = 4000;
pub(super) const ATTENTION: u16 = 4001;
pub(super) const AUTH_MORE: u16 = 4002;
pub(super) const ERROR: u16 = 4003;
pub(super) const REDIRECT: u16 = 4004;
pub(super) const WAIT: u16 = 4005;
pub(super) const WAIT_FOR_ANSWER: u16 = 4006;
pub(super) const STATUS: u16 = 4007;
/// The attention that carries a late answer.
pub(super) const LATE_ANSWER: u32 = 5008;

/// A server's features and requirements, from its answer to `kXR_protocol`.
pub(super) mod flags {
    pub(in super::super) const DATA_SERVER: u32 = 0x0000_0001;
    pub(in super::super) const REDIRECTOR: u32 = 0x0000_0002;
    pub(in super::super) const PAGES: u32 = 0x0020_0000;
    pub(in super::super) const TLS_AFTER_LOGIN: u32 = 0x0800_0000;
    pub(in super::super) const TLS_NOW: u32 = 0x4000_0000;
    pub(in super::super) const TLS_THERE: u32 = 0x8000_0000;
}

/// A request; its stream is filled in when it is sent.
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

    /// Requests the server's features.
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
        // Full URLs in redirects, several protocols, redirects of reads, both kinds of addresses.
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

    /// Makes the connection one more of a login, over which the server sends bytes.
    pub(super) fn bind(login: [u8; 16]) -> Self {
        Self::new(BIND, login, &[])
    }

    /// Authenticates by a protocol of up to four letters.
    pub(super) fn auth(protocol: &str, credentials: &[u8]) -> Self {
        let mut arguments = [0; 16];
        let length = protocol.len().min(4);
        arguments[12..12 + length].copy_from_slice(&protocol.as_bytes()[..length]);
        Self::new(AUTH, arguments, credentials)
    }

    /// Queries the values of settings, by their names.
    pub(super) fn settings(names: &str) -> Self {
        const CONFIG: u8 = 7;
        let mut arguments = [0; 16];
        arguments[1] = CONFIG;
        Self::new(QUERY, arguments, names.as_bytes())
    }

    /// Queries the checksum of a file, of any kind that the server has.
    pub(super) fn checksum(path: &str) -> Self {
        let mut arguments = [0; 16];
        arguments[..2].copy_from_slice(&CHECKSUM.to_be_bytes());
        Self::new(QUERY, arguments, path.as_bytes())
    }

    /// Queries which servers have a path.
    pub(super) fn locate(path: &str) -> Self {
        const NAMES: u16 = 0x0100;
        let mut arguments = [0; 16];
        arguments[..2].copy_from_slice(&NAMES.to_be_bytes());
        Self::new(LOCATE, arguments, path.as_bytes())
    }

    /// Lists a folder, with the status of all that is in it.
    pub(super) fn list(path: &str) -> Self {
        const WITH_STATUS: u8 = 2;
        let mut arguments = [0; 16];
        arguments[15] = WITH_STATUS;
        Self::new(DIRLIST, arguments, path.as_bytes())
    }

    /// Opens a file for reading; the answer has its size.
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

    /// A read whose answer comes over this path, 0 for the connection of the request.
    pub(super) fn read(handle: Handle, offset: u64, length: u32, path: u8) -> Self {
        let more: &[u8] = if path == 0 { &[] } else { &[path, 0, 0, 0, 0, 0, 0, 0] };
        Self::new(READ, Self::range(handle, offset, length), more)
    }

    /// The same with a checksum for each page.
    pub(super) fn read_pages(handle: Handle, offset: u64, length: u32, path: u8) -> Self {
        let more: &[u8] = if path == 0 { &[] } else { &[path, 0] };
        Self::new(PGREAD, Self::range(handle, offset, length), more)
    }

    /// Reads many ranges (offset and length).
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

    /// The bytes to be sent, with the stream that the answer will name.
    pub(super) fn on_stream(&mut self, stream: u16) -> &[u8] {
        self.0[..2].copy_from_slice(&stream.to_be_bytes());
        &self.0
    }

    /// Whether it has a token, which no untrusted server may get.
    pub(super) fn has_secrets(&self) -> bool {
        self.0.windows(6).any(|six| six.eq_ignore_ascii_case(b"authz="))
    }

    /// Whether it has a query behind its path, which may be a secret.
    pub(super) fn has_query(&self) -> bool {
        self.0.get(24..).is_some_and(|path| path.contains(&b'?'))
    }

    /// The size limit of an answer that is no data, in bytes.
    pub(super) fn answer_bytes_max(&self) -> usize {
        let code = self.0.get(2..4).unwrap_or_default();
        if code == DIRLIST.to_be_bytes() || code == LOCATE.to_be_bytes() {
            LISTING_BYTES_MAX as usize
        } else {
            ANSWER_BYTES_MAX as usize
        }
    }

    /// Whether it is given up where the server wants it to wait: a checksum for which it has to read the whole file.
    pub(super) fn takes_no_wait(&self) -> bool {
        self.0.get(2..6).is_some_and(|start| start == [QUERY.to_be_bytes(), CHECKSUM.to_be_bytes()].concat())
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

/// The handle of an open file on a connection.
pub(super) type Handle = [u8; 4];

/// Bytes in a vector read for each range, and before its bytes in the answer.
pub(super) fn segment_header(handle: Handle, offset: u64, length: u32) -> [u8; SEGMENT_HEADER_BYTES] {
    let mut header = [0; SEGMENT_HEADER_BYTES];
    header[..4].copy_from_slice(&handle);
    header[4..8].copy_from_slice(&length.to_be_bytes());
    header[8..].copy_from_slice(&offset.to_be_bytes());
    header
}

/// The header of an answer.
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

/// The number at this place of an answer.
pub(super) fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// An answer to an open: the handle, the size, and the identity of this version of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) handle: Handle,
    pub(super) size_bytes: u64,
    /// The server's number for the file and the time of its last change.
    pub(super) version: String,
}

impl Opened {
    /// Handle, compression (8 bytes), and `id size flags time` as text.
    pub(super) fn parse(answer: &[u8]) -> Option<Self> {
        let handle = *answer.first_chunk()?;
        let text = answer.get(12..)?.split(|byte| *byte == 0).next()?;
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let (id, size, _flags, time) = (words.next()?, words.next()?, words.next()?, words.next()?);
        Some(Self { handle, size_bytes: size.parse().ok()?, version: format!("{id} {time}") })
    }
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    /// The query to add to the path at that server.
    pub(super) query: Option<String>,
    /// Whether the connection has to be secure; None if the answer does not say.
    pub(super) secure: Option<bool>,
    /// Another path than the requested one.
    pub(super) path: Option<String>,
}

impl Target {
    /// Port and `host?query?token`; or a negative port and a whole URL.
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

/// The failure in an answer of kind `ERROR`: a number and a text.
pub(super) fn fault_of(server: &str, answer: &[u8]) -> Fault {
    use StorageErrorKind::{Io, NotAFile, NotFound, Permission, Refused, Unreachable};
    let Some(code) = number(answer, 0) else { return Fault::protocol(server, "an error without a number") };
    let words = quoted(answer.get(4..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default());
    let says = format!("{server} says: {words} (error {code})");
    match code {
        3011 => Fault::new(NotFound, format!("there is no such file at {server}: {words}")),
        3010 | 3030 => Fault::new(Permission, format!("you have no permission to read it: {says}")),
        3015 | 3016 => Fault::new(NotAFile, format!("it is a directory, not a file: {says}")),
        // FSError, IOError, NoMemory, ServerError, Cancelled, Overloaded, time-outs: they pass.
        3005 | 3007 | 3008 | 3012 | 3017 | 3024 | 3034 | 3035 => Fault::new(Io, says),
        // No server has the file now; it may come back.
        3014 | 3029 => Fault::new(Unreachable, says),
        // File not open, and a checksum that the server found wrong: another open may mend it.
        3004 | 3019 => Fault::new(Io, says),
        _ => Fault::new(Refused, says),
    }
}

/// Whether the server does not know the request at all.
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
