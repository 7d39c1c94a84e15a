//! Sends the requests of a read one behind the other and takes the bytes of their answers to their places.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use branchline_trace::journal;

use super::plan::{Piece, Pieces};
use super::session::Session;
use super::wire::{self, number, Handle, Request, PAGES_HEADER_BYTES, PAGE_BYTES, SEGMENT_HEADER_BYTES};
use crate::fault::{Fault, Result};
use crate::limits::REQUESTS_BYTES_MAX;
use crate::{RangeRead, StorageErrorKind};

/// A request that was sent, and how much of its answer has come.
struct Asked {
    request: Request,
    pieces: Pieces,
    with_checksums: bool,
    /// The piece whose bytes come next, and how many of them have come.
    piece: usize,
    received: u32,
    /// Of a vector read: the header before the bytes of the piece, as far as it has come.
    header: [u8; SEGMENT_HEADER_BYTES],
    header_received: usize,
    /// What is told of it where a trace is made.
    told: Option<journal::Request>,
}

impl Asked {
    fn new(handle: Handle, pieces: Pieces, with_checksums: bool, path: u8, about: About<'_>) -> Self {
        let spans = pieces.iter().map(|piece| (piece.offset, u64::from(piece.length)));
        let what = match pieces.len() {
            1 if with_checksums => "pgread",
            1 => "read",
            _ => "readv",
        };
        let told = journal::request(what, about.path, about.name, spans);
        let request = match pieces.as_slice() {
            [one] if with_checksums => Request::read_pages(handle, one.offset, one.length, path),
            [one] => Request::read(handle, one.offset, one.length, path),
            many => Request::read_many(handle, many.iter().map(|piece| (piece.offset, piece.length))),
        };
        let with_checksums = with_checksums && pieces.len() == 1;
        let header = [0; SEGMENT_HEADER_BYTES];
        Self { request, pieces, with_checksums, piece: 0, received: 0, header, header_received: 0, told }
    }

    fn is_whole(&self) -> bool {
        self.piece == self.pieces.len()
    }
}

/// What the file and its store are called.
#[derive(Clone, Copy)]
pub(super) struct About<'a> {
    pub(super) path: &'a str,
    pub(super) name: &'a str,
}

/// A read in progress.
pub(super) struct Transfer<'a> {
    about: About<'a>,
    session: &'a mut Session,
    handle: Handle,
    reads: &'a mut [&'a mut RangeRead],
    waiting: VecDeque<Pieces>,
    /// Requests that may be due at a time.
    requests_max: usize,
    asked: HashMap<u16, Asked>,
    deadline: Instant,
    wait_end: Instant,
    pub(super) calls_count: u64,
}

impl<'a> Transfer<'a> {
    /// Reads into `reads`, whose buffers have all their bytes already.
    pub(super) fn new(
        session: &'a mut Session,
        handle: Handle,
        reads: &'a mut [&'a mut RangeRead],
        requests: Vec<Pieces>,
        requests_max: usize,
        patience: Duration,
        about: About<'a>,
    ) -> Self {
        let now = Instant::now();
        let wait_end = now + session.wait_max;
        Self {
            about,
            session,
            handle,
            reads,
            waiting: requests.into(),
            requests_max,
            asked: HashMap::new(),
            deadline: now + patience,
            wait_end,
            calls_count: 0,
        }
    }

    /// Asks and takes until all has come. After an error answers may be due: the connection is broken then.
    pub(super) fn run(&mut self) -> Result<()> {
        let result = self.run_all();
        self.session.is_broken |= !self.asked.is_empty();
        result
    }

    fn run_all(&mut self) -> Result<()> {
        loop {
            self.send_more()?;
            if self.asked.is_empty() {
                return Ok(());
            }
            let header = self.session.next_header(self.deadline)?;
            let Some(mut asked) = self.asked.remove(&header.stream) else {
                return Err(self.session.nonsense("an answer to another request"));
            };
            if let Some(told) = &mut asked.told {
                told.first_byte();
            }
            // An answer that fails in the middle leaves bytes behind it.
            let was_broken = std::mem::replace(&mut self.session.is_broken, true);
            let is_done = self.take(&mut asked, header)?;
            self.session.is_broken = was_broken;
            if !is_done {
                self.asked.insert(header.stream, asked);
            }
        }
    }

    /// Sends as many requests as the server may have at a time. More would wait in the connection, and where both sides
    /// wait for the other to take what they send, nothing moves.
    fn send_more(&mut self) -> Result<()> {
        let mut bytes: usize = self.asked.values().map(|asked| asked.request.size_bytes()).sum();
        while self.asked.len() < self.requests_max && bytes < REQUESTS_BYTES_MAX {
            let Some(pieces) = self.waiting.pop_front() else { return Ok(()) };
            // Over TLS nobody changes bytes on their way.
            let with_checksums = self.session.takes.pages && !self.session.link.is_secure();
            let path = self.session.next_path();
            let mut asked = Asked::new(self.handle, pieces, with_checksums, path, self.about);
            if let (Some(told), Ok(address)) = (&mut asked.told, self.session.link.own_address()) {
                told.over(address.port().into());
            }
            bytes += asked.request.size_bytes();
            let stream = self.session.send(&mut asked.request)?;
            self.calls_count += 1;
            self.asked.insert(stream, asked);
        }
        Ok(())
    }

    /// Takes one answer; tells whether it was the last to its request.
    fn take(&mut self, asked: &mut Asked, header: wire::Header) -> Result<bool> {
        match header.status {
            wire::OK | wire::OK_SO_FAR if asked.pieces.len() > 1 => self.take_vector(asked, header.length)?,
            wire::OK | wire::OK_SO_FAR => self.take_bytes(asked, header.length)?,
            wire::STATUS if asked.with_checksums => {
                let is_last = self.take_pages(asked, header.length)?;
                return if is_last { self.check_whole(asked) } else { Ok(false) };
            }
            wire::ERROR => return self.take_error(asked, header.length),
            wire::WAIT => {
                let body = self.session.body(header.length, self.deadline)?;
                let pause = self.session.wait_asked(&body, self.wait_end)?;
                std::thread::sleep(pause);
                self.deadline += pause;
                self.session.resend(&mut asked.request, header.stream)?;
                return Ok(false);
            }
            wire::WAIT_FOR_ANSWER => {
                let body = self.session.body(header.length, self.deadline)?;
                let pause = self.session.wait_asked(&body, self.wait_end)?;
                self.session.link.set_silence(pause.max(Duration::from_secs(1)))?;
                self.deadline += pause;
                return Ok(false);
            }
            wire::REDIRECT => {
                let reason = format!("{} wants the file to be read from another server", self.session.link.server);
                return Err(Fault::new(StorageErrorKind::Unreachable, reason));
            }
            _ => return Err(self.session.nonsense("an answer of an unknown kind")),
        }
        if header.status == wire::OK {
            self.check_whole(asked)
        } else {
            Ok(false)
        }
    }

    fn check_whole(&mut self, asked: &mut Asked) -> Result<bool> {
        if asked.is_whole() {
            if let Some(told) = &mut asked.told {
                told.got(asked.pieces.iter().map(|piece| u64::from(piece.length)).sum());
                told.ended("ok");
            }
            return Ok(true);
        }
        let server = &self.session.link.server;
        let reason = format!("{server} has fewer bytes than when the file was opened: it was cut short since then");
        Err(Fault::new(StorageErrorKind::Changed, reason))
    }

    fn take_error(&mut self, asked: &mut Asked, length: u32) -> Result<bool> {
        let body = self.session.body(length, self.deadline)?;
        if asked.with_checksums && wire::is_unknown_request(&body) {
            self.session.takes.pages = false;
            if let Some(told) = &mut asked.told {
                told.ended("not known to the server");
            }
            self.waiting.push_front(std::mem::take(&mut asked.pieces));
            return Ok(true);
        }
        // The answer is whole, so the connection is as good as before.
        self.session.is_broken = false;
        Err(wire::fault_of(&self.session.link.server, &body))
    }

    /// The next bytes of the current piece, straight from the connection to their place.
    fn fill(&mut self, asked: &mut Asked, count: u32) -> Result<()> {
        let Piece { wanted, at, length, .. } = asked.pieces[asked.piece];
        let start = at + asked.received as usize;
        let room = self.reads[wanted].room();
        let room = room.get_mut(start..start + count as usize);
        let room = room.ok_or_else(|| Fault::new(StorageErrorKind::Io, "a mistake in Branchline"))?;
        self.session.receive(room, self.deadline)?;
        asked.received += count;
        if asked.received == length {
            (asked.piece, asked.received, asked.header_received) = (asked.piece + 1, 0, 0);
        }
        Ok(())
    }

    fn take_bytes(&mut self, asked: &mut Asked, length: u32) -> Result<()> {
        if length == 0 {
            return Ok(());
        }
        let left = asked.pieces.get(asked.piece).map_or(0, |piece| piece.length - asked.received);
        if length > left {
            return Err(self.session.nonsense("more bytes than were asked for"));
        }
        self.fill(asked, length)
    }

    /// Headers and bytes of pieces, in the order of the request. An answer may end anywhere in them.
    fn take_vector(&mut self, asked: &mut Asked, length: u32) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let Some(piece) = asked.pieces.get(asked.piece).copied() else {
                return Err(self.session.nonsense("more bytes than were asked for"));
            };
            if asked.header_received < SEGMENT_HEADER_BYTES {
                let count = (SEGMENT_HEADER_BYTES - asked.header_received).min(left as usize);
                let room = &mut asked.header[asked.header_received..asked.header_received + count];
                self.session.receive(room, self.deadline)?;
                asked.header_received += count;
                left -= count as u32;
                let expected = wire::segment_header(self.handle, piece.offset, piece.length);
                if asked.header_received == SEGMENT_HEADER_BYTES && asked.header[4..] != expected[4..] {
                    return Err(self.session.nonsense("other bytes than were asked for"));
                }
                continue;
            }
            let count = (piece.length - asked.received).min(left);
            self.fill(asked, count)?;
            left -= count;
        }
        Ok(())
    }

    /// Pages, each behind its checksum, and before them where they are in the file. Tells whether they are the last.
    fn take_pages(&mut self, asked: &mut Asked, length: u32) -> Result<bool> {
        let mut about = [0; PAGES_HEADER_BYTES];
        if length as usize != about.len() {
            return Err(self.session.nonsense("pages of an unknown form"));
        }
        self.session.receive(&mut about, self.deadline)?;
        if number(&about, 0) != Some(crc32c::crc32c(&about[4..])) {
            return Err(self.session.nonsense("pages whose description has a wrong checksum"));
        }
        let kind = about[7];
        let mut left = number(&about, 12).unwrap_or_default();
        let piece = asked.pieces.get(asked.piece).copied();
        let Some(piece) = piece else {
            return if left == 0 {
                Ok(kind == 0)
            } else {
                Err(self.session.nonsense("more bytes than were asked for"))
            };
        };
        let expected = piece.offset + u64::from(asked.received);
        if left > 0 && about[16..] != expected.to_be_bytes() {
            return Err(self.session.nonsense("other bytes than were asked for"));
        }
        while left > 0 {
            left = self.take_page(asked, piece, left)?;
        }
        Ok(kind == 0)
    }

    /// One page, up to its border in the file or the end of the answer; tells how many bytes are left.
    fn take_page(&mut self, asked: &mut Asked, piece: Piece, left: u32) -> Result<u32> {
        const CHECKSUM_BYTES: u32 = 4;
        let start = asked.received;
        let offset = piece.offset + u64::from(start);
        let to_border = (PAGE_BYTES - offset % PAGE_BYTES) as u32;
        let count = to_border.min(left.saturating_sub(CHECKSUM_BYTES));
        if count == 0 || asked.is_whole() || count > piece.length - start {
            return Err(self.session.nonsense("more bytes than were asked for"));
        }
        let mut checksum = [0; CHECKSUM_BYTES as usize];
        self.session.receive(&mut checksum, self.deadline)?;
        self.fill(asked, count)?;
        let first = piece.at + start as usize;
        let page = &self.reads[piece.wanted].bytes()[first..first + count as usize];
        if crc32c::crc32c(page) != u32::from_be_bytes(checksum) {
            let server = &self.session.link.server;
            let reason = format!("bytes from {server} changed on their way: a wrong checksum at offset {offset}");
            return Err(Fault::new(StorageErrorKind::Protocol, reason));
        }
        Ok(left - CHECKSUM_BYTES - count)
    }
}
