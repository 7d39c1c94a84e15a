//! Sends the requests of a read, and receives the bytes of the responses into the buffers.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use branchline_trace::journal;

use super::plan::{Piece, Pieces};
use super::session::Session;
use super::wire::{self, number, Handle, Request, PAGES_HEADER_BYTES, PAGE_BYTES, SEGMENT_HEADER_BYTES};
use crate::limits::REQUESTS_BYTES_MAX;
use crate::servers::failure::{Fault, Result};
use crate::{RangeRead, StorageErrorKind};

/// A request that was sent, with the progress of receiving the response.
struct SentRequest {
    request: Request,
    pieces: Pieces,
    with_checksums: bool,
    /// Index of the piece whose bytes come next.
    piece: usize,
    /// Number of bytes of the current piece that have been received.
    received: u32,
    /// Header of the current range in a vector read, as far as it has been received.
    header: [u8; SEGMENT_HEADER_BYTES],
    header_received: usize,
    /// Trace entry of the request; None if no trace is recorded.
    traced: Option<journal::Request>,
}

impl SentRequest {
    fn new(handle: Handle, pieces: Pieces, with_checksums: bool, path: u8, file: FileNames<'_>) -> Self {
        let spans = pieces.iter().map(|piece| (piece.offset, u64::from(piece.length)));
        let what = match pieces.len() {
            1 if with_checksums => "pgread",
            1 => "read",
            _ => "readv",
        };
        let traced = journal::request(what, file.path, file.name, spans);
        let request = match pieces.as_slice() {
            [one] if with_checksums => Request::read_pages(handle, one.offset, one.length, path),
            [one] => Request::read(handle, one.offset, one.length, path),
            many => Request::read_many(handle, many.iter().map(|piece| (piece.offset, piece.length))),
        };
        let with_checksums = with_checksums && pieces.len() == 1;
        let header = [0; SEGMENT_HEADER_BYTES];
        Self { request, pieces, with_checksums, piece: 0, received: 0, header, header_received: 0, traced }
    }

    fn is_whole(&self) -> bool {
        self.piece == self.pieces.len()
    }
}

/// Names of a file and its store in a trace.
#[derive(Clone, Copy)]
pub(super) struct FileNames<'a> {
    pub(super) path: &'a str,
    pub(super) name: &'a str,
}

/// A read in progress.
pub(super) struct Transfer<'a> {
    file: FileNames<'a>,
    session: &'a mut Session,
    handle: Handle,
    reads: &'a mut [&'a mut RangeRead],
    waiting: VecDeque<Pieces>,
    /// Maximum number of pending requests.
    requests_max: usize,
    in_flight: HashMap<u16, SentRequest>,
    deadline: Instant,
    wait_end: Instant,
    pub(super) calls_count: u64,
}

impl<'a> Transfer<'a> {
    /// Creates a transfer into `reads`, whose buffers must be initialized.
    pub(super) fn new(
        session: &'a mut Session,
        handle: Handle,
        reads: &'a mut [&'a mut RangeRead],
        requests: Vec<Pieces>,
        requests_max: usize,
        time_limit: Duration,
        file: FileNames<'a>,
    ) -> Self {
        let now = Instant::now();
        let wait_end = now + session.wait_max;
        Self {
            file,
            session,
            handle,
            reads,
            waiting: requests.into(),
            requests_max,
            in_flight: HashMap::new(),
            deadline: now + time_limit,
            wait_end,
            calls_count: 0,
        }
    }

    /// Sends requests and receives responses until all bytes have arrived. After an error, the connection is marked as
    /// broken if responses are still pending.
    pub(super) fn run(&mut self) -> Result<()> {
        let result = self.run_all();
        self.session.is_broken |= !self.in_flight.is_empty();
        result
    }

    fn run_all(&mut self) -> Result<()> {
        loop {
            self.send_more()?;
            if self.in_flight.is_empty() {
                return Ok(());
            }
            let header = self.session.next_header(self.deadline)?;
            let Some(mut sent) = self.in_flight.remove(&header.stream) else {
                return Err(self.session.protocol_fault("an answer to another request"));
            };
            if let Some(traced) = &mut sent.traced {
                traced.first_byte();
            }
            // Marked as broken while a response is handled, because a failure within a response would leave unread
            // bytes.
            let was_broken = std::mem::replace(&mut self.session.is_broken, true);
            let is_done = self.take(&mut sent, header)?;
            self.session.is_broken = was_broken;
            if !is_done {
                self.in_flight.insert(header.stream, sent);
            }
        }
    }

    /// Sends as many requests as may be pending on the server. With more requests, the socket buffers would fill up,
    /// and both sides would wait for each other forever.
    fn send_more(&mut self) -> Result<()> {
        let mut bytes: usize = self.in_flight.values().map(|sent| sent.request.size_bytes()).sum();
        while self.in_flight.len() < self.requests_max && bytes < REQUESTS_BYTES_MAX {
            let Some(pieces) = self.waiting.pop_front() else { return Ok(()) };
            // Checksums are not needed over TLS, which already protects the integrity of the bytes.
            let with_checksums = self.session.limits.pages && !self.session.link.is_secure();
            let path = self.session.next_path();
            let mut sent = SentRequest::new(self.handle, pieces, with_checksums, path, self.file);
            if let (Some(traced), Ok(address)) = (&mut sent.traced, self.session.link.own_address()) {
                traced.over(address.port().into());
            }
            bytes += sent.request.size_bytes();
            let stream = self.session.send(&mut sent.request)?;
            self.calls_count += 1;
            self.in_flight.insert(stream, sent);
        }
        Ok(())
    }

    /// Handles a response, and returns whether it completes the request.
    fn take(&mut self, sent: &mut SentRequest, header: wire::Header) -> Result<bool> {
        match header.status {
            wire::OK | wire::OK_SO_FAR if sent.pieces.len() > 1 => self.take_vector(sent, header.length)?,
            wire::OK | wire::OK_SO_FAR => self.take_bytes(sent, header.length)?,
            wire::STATUS if sent.with_checksums => {
                let is_last = self.take_pages(sent, header.length)?;
                return if is_last { self.check_whole(sent) } else { Ok(false) };
            }
            wire::ERROR => return self.take_error(sent, header.length),
            wire::WAIT => {
                let body = self.session.body(header.length, self.deadline)?;
                self.deadline += self.session.wait(&body, self.wait_end)?;
                self.session.resend(&mut sent.request, header.stream)?;
                return Ok(false);
            }
            wire::WAIT_FOR_ANSWER => {
                let body = self.session.body(header.length, self.deadline)?;
                let pause = self.session.announced_wait(&body, self.wait_end)?;
                self.session.link.allow_silence(pause)?;
                self.deadline += pause;
                return Ok(false);
            }
            wire::REDIRECT => {
                let reason = format!("{} redirects reads of the file to another server", self.session.link.server);
                return Err(Fault::new(StorageErrorKind::Unreachable, reason));
            }
            _ => return Err(self.session.protocol_fault("a response of an unknown kind")),
        }
        if header.status == wire::OK {
            self.check_whole(sent)
        } else {
            Ok(false)
        }
    }

    fn check_whole(&mut self, sent: &mut SentRequest) -> Result<bool> {
        if sent.is_whole() {
            if let Some(traced) = &mut sent.traced {
                traced.got(sent.pieces.iter().map(|piece| u64::from(piece.length)).sum());
                traced.ended("ok");
            }
            return Ok(true);
        }
        let server = &self.session.link.server;
        let reason = format!("{server} has fewer bytes than when the file was opened: it has been truncated");
        Err(Fault::new(StorageErrorKind::Changed, reason))
    }

    fn take_error(&mut self, sent: &mut SentRequest, length: u32) -> Result<bool> {
        let body = self.session.body(length, self.deadline)?;
        if sent.with_checksums && wire::is_unknown_request(&body) {
            self.session.limits.pages = false;
            if let Some(traced) = &mut sent.traced {
                traced.ended("not supported by the server");
            }
            self.waiting.push_front(std::mem::take(&mut sent.pieces));
            return Ok(true);
        }
        // The error response was read completely, so the connection is still usable.
        self.session.is_broken = false;
        Err(wire::fault_of(&self.session.link.server, &body))
    }

    /// Receives the next `count` bytes of the current piece directly into the buffer of its read.
    fn fill(&mut self, sent: &mut SentRequest, count: u32) -> Result<()> {
        let Piece { wanted, at, length, .. } = sent.pieces[sent.piece];
        let start = at + sent.received as usize;
        let room = self.reads[wanted].room();
        let room = room.get_mut(start..start + count as usize);
        let room =
            room.ok_or_else(|| Fault::new(StorageErrorKind::Internal, "a response is longer than its buffer"))?;
        self.session.receive(room, self.deadline)?;
        sent.received += count;
        if sent.received == length {
            (sent.piece, sent.received, sent.header_received) = (sent.piece + 1, 0, 0);
        }
        Ok(())
    }

    fn take_bytes(&mut self, sent: &mut SentRequest, length: u32) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let left = sent.pieces.get(sent.piece).map_or(0, |piece| piece.length - sent.received);
        if length > left {
            return Err(self.session.protocol_fault("more bytes than requested"));
        }
        self.fill(sent, length)
    }

    /// Receives the headers and bytes of pieces, in the order of the request. A response may end anywhere within a
    /// header or piece.
    fn take_vector(&mut self, sent: &mut SentRequest, length: u32) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let Some(piece) = sent.pieces.get(sent.piece).copied() else {
                return Err(self.session.protocol_fault("more bytes than requested"));
            };
            if sent.header_received < SEGMENT_HEADER_BYTES {
                let count = (SEGMENT_HEADER_BYTES - sent.header_received).min(left as usize);
                let room = &mut sent.header[sent.header_received..sent.header_received + count];
                self.session.receive(room, self.deadline)?;
                sent.header_received += count;
                left -= count as u32;
                let expected = wire::segment_header(self.handle, piece.offset, piece.length);
                if sent.header_received == SEGMENT_HEADER_BYTES && sent.header[4..] != expected[4..] {
                    return Err(self.session.protocol_fault("other bytes than requested"));
                }
                continue;
            }
            let count = (piece.length - sent.received).min(left);
            self.fill(sent, count)?;
            left -= count;
        }
        Ok(())
    }

    /// Receives pages with their checksums, after a header that contains their offset in the file. Returns whether
    /// these are the last pages of the request.
    fn take_pages(&mut self, sent: &mut SentRequest, length: u32) -> Result<bool> {
        let mut header = [0; PAGES_HEADER_BYTES];
        if length as usize != header.len() {
            return Err(self.session.protocol_fault("pages in an unknown format"));
        }
        self.session.receive(&mut header, self.deadline)?;
        if number(&header, 0) != Some(crc32c::crc32c(&header[4..])) {
            return Err(self.session.protocol_fault("a page header with a wrong checksum"));
        }
        let kind = header[7];
        let mut left = number(&header, 12).unwrap_or_default();
        let piece = sent.pieces.get(sent.piece).copied();
        let Some(piece) = piece else {
            return if left == 0 {
                Ok(kind == 0)
            } else {
                Err(self.session.protocol_fault("more bytes than requested"))
            };
        };
        let expected = piece.offset + u64::from(sent.received);
        if left > 0 && header[16..] != expected.to_be_bytes() {
            return Err(self.session.protocol_fault("other bytes than requested"));
        }
        while left > 0 {
            left = self.take_page(sent, piece, left)?;
        }
        Ok(kind == 0)
    }

    /// Receives a page, up to the page's end in the file or the end of the response. Returns how many bytes of the
    /// response are left.
    fn take_page(&mut self, sent: &mut SentRequest, piece: Piece, left: u32) -> Result<u32> {
        const CHECKSUM_BYTES: u32 = 4;
        let start = sent.received;
        let offset = piece.offset + u64::from(start);
        let to_border = (PAGE_BYTES - offset % PAGE_BYTES) as u32;
        let count = to_border.min(left.saturating_sub(CHECKSUM_BYTES));
        if count == 0 || sent.is_whole() || count > piece.length - start {
            return Err(self.session.protocol_fault("more bytes than requested"));
        }
        let mut checksum = [0; CHECKSUM_BYTES as usize];
        self.session.receive(&mut checksum, self.deadline)?;
        self.fill(sent, count)?;
        let first = piece.at + start as usize;
        let page = &self.reads[piece.wanted].bytes()[first..first + count as usize];
        if crc32c::crc32c(page) != u32::from_be_bytes(checksum) {
            let server = &self.session.link.server;
            let reason = format!("bytes from {server} were corrupted in transit: checksum mismatch at offset {offset}");
            return Err(Fault::new(StorageErrorKind::Protocol, reason));
        }
        Ok(left - CHECKSUM_BYTES - count)
    }
}
