//! Responses with several ranges (RFC 9110, section 14.6). Each part has headers that state its range, followed by the
//! bytes.
//!
//! Parts are delimited by their lengths, not by the boundary, since the bytes of a file may contain the boundary by
//! chance.

use std::io::{self, BufRead, Read};

use super::content_range::ContentRange;
use crate::limits::{PART_LINES_MAX, PART_LINE_BYTES_MAX};
use crate::ByteRange;

/// Range of a part, and size of the whole file, which is None if the server does not know the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PartRange {
    pub(super) range: ByteRange,
    pub(super) size_bytes: Option<u64>,
}

/// Reader for the parts of a response, in order.
pub(super) struct Parts<R> {
    body: R,
    /// Boundary between the parts, including the two leading dashes.
    boundary: Vec<u8>,
    is_first: bool,
}

impl<R: BufRead> Parts<R> {
    pub(super) fn new(body: R, boundary: &str) -> Self {
        Self { body, boundary: [b"--", boundary.as_bytes()].concat(), is_first: true }
    }

    /// Returns the range of the next part, whose bytes follow in `body`. Returns None after the last part.
    pub(super) fn next_part(&mut self) -> io::Result<Option<PartRange>> {
        let mut lines = 0;
        loop {
            lines += 1;
            let line = self.line()?;
            if let Some(rest) = line.strip_prefix(self.boundary.as_slice()) {
                match rest.trim_ascii() {
                    b"" => break,
                    b"--" => return Ok(None),
                    _ => return Err(wrong("a boundary other than the announced one")),
                }
            }
            // Before the first boundary a server may send any text, but after a part only a line break.
            if !(self.is_first || line.is_empty()) || lines > PART_LINES_MAX {
                return Err(wrong("no boundary at the end of a part"));
            }
        }
        self.is_first = false;
        self.headers().map(Some)
    }

    /// Returns the reader from which the bytes of the current part are read.
    pub(super) fn body(&mut self) -> &mut R {
        &mut self.body
    }

    /// Skips `length` bytes of the current part.
    pub(super) fn skip(&mut self, length: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.body.by_ref().take(length), &mut io::sink())?;
        if skipped == length {
            Ok(())
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    fn headers(&mut self) -> io::Result<PartRange> {
        let mut part = None;
        for _ in 0..PART_LINES_MAX {
            let line = self.line()?;
            if line.is_empty() {
                return part.ok_or_else(|| wrong("a part without a valid Content-Range"));
            }
            let line = String::from_utf8_lossy(&line).into_owned();
            if let Some((name, value)) = line.split_once(':')
                && name.trim().eq_ignore_ascii_case("content-range")
            {
                part = ContentRange::parse(value)
                    .and_then(|ContentRange { range, size_bytes }| range.map(|range| PartRange { range, size_bytes }));
            }
        }
        Err(wrong("a part with too many header lines"))
    }

    /// Reads a line, and returns it without the line break.
    fn line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        self.body.by_ref().take(PART_LINE_BYTES_MAX as u64).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() >= PART_LINE_BYTES_MAX {
            return Err(wrong("a line that is too long in the headers of a part"));
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(line)
    }
}

/// Builds the error for a malformed part.
fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Returns the boundary in a content type such as `multipart/byteranges; boundary=...`.
pub(super) fn boundary_of(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/byteranges") {
        return None;
    }
    parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        (name.trim().eq_ignore_ascii_case("boundary") && !value.is_empty()).then(|| value.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(body: &[u8]) -> io::Result<Vec<(u64, Vec<u8>)>> {
        let mut parts = Parts::new(body, "X");
        let mut found = Vec::new();
        while let Some(PartRange { range, .. }) = parts.next_part()? {
            let mut bytes = Vec::new();
            parts.body().take(range.length).read_to_end(&mut bytes)?;
            if bytes.len() as u64 != range.length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            found.push((range.offset, bytes));
        }
        Ok(found)
    }

    const BODY: &[u8] =
        b"\r\n--X\r\nContent-Type: a/b\r\nContent-Range: bytes 5-14/99\r\n\r\n\r\n--X--\r\nz\r\n--X\r\n\
        CONTENT-RANGE:bytes 0-1/99\r\n\r\nab\r\n--X--\r\n";

    #[test]
    fn parts_are_read_by_their_lengths_though_a_boundary_is_in_them() {
        let found = read_all(BODY).unwrap();
        assert_eq!(found, [(5, b"\r\n--X--\r\nz".to_vec()), (0, b"ab".to_vec())]);
    }

    #[test]
    fn a_body_that_ends_early_is_an_error_wherever_it_ends() {
        for length in 0..BODY.len() - 2 {
            assert!(read_all(&BODY[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn wrong_parts_are_errors() {
        let endless = [b"--X\r\n".to_vec(), b"a: b\r\n".repeat(1000)].concat();
        let long = [b"--X\r\n".to_vec(), vec![b'a'; 100_000]].concat();
        for body in [
            &b"--X\r\n\r\nab\r\n--X--\r\n"[..],
            b"--X\r\nContent-Range: bytes 9-1/99\r\n\r\n",
            b"--Xtra\r\nContent-Range: bytes 0-1/99\r\n\r\nab",
            b"--X\r\nContent-Range: bytes 0-1/99\r\n\r\nabc\r\n--X--\r\n",
            &endless,
            &long,
            &b"\n".repeat(1000),
        ] {
            assert!(read_all(body).is_err(), "{:?}", String::from_utf8_lossy(&body[..body.len().min(50)]));
        }
    }

    #[test]
    fn every_changed_byte_gives_parts_or_an_error() {
        for index in 0..BODY.len() {
            for byte in [0, b'\n', b'-', b'9', b'X', 255] {
                let mut body = BODY.to_vec();
                body[index] = byte;
                let _ = read_all(&body);
            }
        }
    }

    #[test]
    fn the_boundary_comes_from_the_content_type() {
        assert_eq!(boundary_of("multipart/byteranges; boundary=123456").unwrap(), "123456");
        assert_eq!(boundary_of("Multipart/ByteRanges;charset=x; Boundary=\"a b\"").unwrap(), "a b");
        for wrong in
            ["text/html", "multipart/mixed; boundary=a", "multipart/byteranges", "multipart/byteranges; boundary="]
        {
            assert_eq!(boundary_of(wrong), None, "{wrong}");
        }
    }
}
