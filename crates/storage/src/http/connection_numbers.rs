//! Assigns IDs to connections, so that a trace shows which connection carried a request.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};
use ureq::Error;

use super::tcp;

static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static LAST: Cell<u64> = const { Cell::new(0) };
}

/// Returns the ID of the connection on which this thread last sent data; 0 if none was sent since [`forget_last`].
pub(super) fn last() -> u64 {
    LAST.with(Cell::get)
}

/// Forgets which connection was used last. Called before each new request.
pub(super) fn forget_last() {
    LAST.with(|last| last.set(0));
}

/// Connector that assigns an ID to each new connection, starting at 1.
#[derive(Debug)]
pub(super) struct Numbering;

#[derive(Debug)]
pub(super) struct Numbered<T> {
    inner: T,
    number: u64,
}

impl<T: Transport> Connector<T> for Numbering {
    type Out = Numbered<T>;

    fn connect(&self, _: &ConnectionDetails<'_>, chained: Option<T>) -> Result<Option<Self::Out>, Error> {
        Ok(chained.map(|inner| Numbered { inner, number: NEXT.fetch_add(1, Ordering::Relaxed) }))
    }
}

impl<T: Transport> Transport for Numbered<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.inner.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        LAST.with(|last| last.set(self.number));
        self.inner.transmit_output(amount, timeout)?;
        if self.is_tls() {
            // Received bytes must be decrypted first, so they cannot go directly into the reader's buffer.
            tcp::forget_last();
        }
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.inner.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.inner.is_open()
    }

    fn is_tls(&self) -> bool {
        self.inner.is_tls()
    }
}
