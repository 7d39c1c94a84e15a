//! TCP connections for HTTP. A connection can receive a response body directly into the reader's buffer.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{recv, RecvFlags};
use ureq::unversioned::transport::{Buffers, NextTimeout, Transport};
use ureq::Error;

use super::loan::Loan;
use crate::limits::{HTTP_BUFFER_BYTES, HTTP_SENT_BYTES, HTTP_STRAIGHT_BYTES};

thread_local! {
    static LAST: RefCell<Option<Loan>> = const { RefCell::new(None) };
}

/// Returns the loan of the connection on which this thread last sent data; None if the thread has sent no data since
/// [`forget_last`].
pub(super) fn last() -> Option<Loan> {
    LAST.with_borrow(Clone::clone)
}

/// Forgets which connection was used last. Called before each request, and for connections with TLS.
pub(super) fn forget_last() {
    LAST.take();
}

/// A buffer, and the range of its received bytes that have not been consumed.
#[derive(Debug, Default)]
struct Window {
    memory: Vec<u8>,
    came: Range<usize>,
    end: usize,
}

impl Window {
    fn came(&self) -> &[u8] {
        self.memory.get(self.came.clone()).unwrap_or_default()
    }

    fn room(&mut self, bytes_max: usize) -> &mut [u8] {
        let end = self.end.min(self.came.end.saturating_add(bytes_max));
        self.memory.get_mut(self.came.end..end).unwrap_or_default()
    }
}

/// A TCP connection to a server or proxy.
#[derive(Debug)]
pub(super) struct Tcp {
    stream: Arc<TcpStream>,
    read_timeout: Option<Duration>,
    write_timeout: Option<Duration>,
    own: Window,
    /// Buffer lent by a reader; must be filled completely before it is given back.
    lent: Option<Window>,
    loan: Loan,
    output: Vec<u8>,
    /// Whether the last call to consume input consumed any bytes.
    is_progress: bool,
}

impl Tcp {
    pub(super) fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: Arc::new(stream),
            read_timeout: None,
            write_timeout: None,
            own: Window::default(),
            lent: None,
            loan: Loan::default(),
            output: Vec::new(),
            is_progress: false,
        })
    }

    fn window(&mut self) -> &mut Window {
        self.lent.as_mut().unwrap_or(&mut self.own)
    }

    /// Makes contiguous space for at least `bytes_min` bytes after the unconsumed bytes in the connection's own buffer.
    fn make_room(&mut self, bytes_min: usize) {
        let own = &mut self.own;
        if own.came.is_empty() {
            own.came = 0..0;
        } else if own.memory.len() - own.came.end < bytes_min {
            own.memory.copy_within(own.came.clone(), 0);
            own.came = 0..own.came.len();
        }
        own.end = own.memory.len().max(HTTP_BUFFER_BYTES).max(own.came.end + bytes_min);
        own.memory.resize(own.end, 0);
    }

    fn held(&self) {
        self.loan.hold(self.own.came.len());
    }
}

impl Buffers for Tcp {
    fn output(&mut self) -> &mut [u8] {
        self.output.resize(HTTP_SENT_BYTES, 0);
        &mut self.output
    }

    fn input(&self) -> &[u8] {
        self.lent.as_ref().unwrap_or(&self.own).came()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        if self.lent.is_some() {
            return self.window().room(HTTP_STRAIGHT_BYTES);
        }
        // Do not let the buffer grow further, so that ureq refuses a response with too many header lines.
        if self.own.came.len() < HTTP_BUFFER_BYTES {
            self.make_room(HTTP_BUFFER_BYTES / 2);
        }
        self.own.room(usize::MAX)
    }

    fn input_appended(&mut self, amount: usize) {
        self.window().came.end += amount;
        self.held();
    }

    fn input_consume(&mut self, amount: usize) {
        self.is_progress = amount > 0;
        self.window().came.start += amount;
        if let Some(full) = self.lent.take_if(|lent| lent.came.start >= lent.end) {
            self.loan.give_back(full.memory);
        }
        self.held();
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.make_room(HTTP_SENT_BYTES / 4);
        self.output.resize(HTTP_SENT_BYTES, 0);
        (self.own.room(usize::MAX), &mut self.output)
    }

    fn can_use_input(&self) -> bool {
        self.is_progress && !self.input().is_empty()
    }
}

impl Transport for Tcp {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        LAST.set(Some(self.loan.clone()));
        let timeout = checked(timeout.for_write())?;
        let limit = timeout.not_zero().map(|limit| *limit);
        if limit != self.write_timeout {
            self.stream.set_write_timeout(limit)?;
            self.write_timeout = limit;
        }
        let bytes = self.output.get(..amount).unwrap_or_default();
        (&*self.stream).write_all(bytes).map_err(|error| failed(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = checked(timeout.for_read())?;
        let limit = timeout.not_zero().map(|limit| *limit);
        if limit != self.read_timeout {
            self.stream.set_read_timeout(limit)?;
            self.read_timeout = limit;
        }
        if self.lent.is_none() && self.own.came.is_empty() {
            self.lent = self.loan.take().map(|(memory, place)| {
                let (came, end) = (place.start..place.start, place.end.min(memory.len()));
                Window { memory, came, end }
            });
        }
        let stream = Arc::clone(&self.stream);
        let room = self.input_append_buf();
        let count = loop {
            match (&*stream).read(room) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => break done.map_err(|error| failed(error, timeout))?,
            }
        };
        self.input_appended(count);
        Ok(count > 0)
    }

    /// Returns false if the server has closed the connection or sent unsolicited bytes. ureq then opens a new
    /// connection.
    fn is_open(&mut self) -> bool {
        let peeked = recv(&*self.stream, &mut [0; 1], RecvFlags::DONTWAIT | RecvFlags::PEEK);
        matches!(peeked, Err(Errno::AGAIN)) && self.own.came.is_empty() && self.lent.is_none()
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            self.loan.give_back(lent.memory);
        }
    }
}

fn checked(timeout: NextTimeout) -> Result<NextTimeout, Error> {
    if timeout.after.is_zero() {
        return Err(Error::Timeout(timeout.reason));
    }
    Ok(timeout)
}

fn failed(error: io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
