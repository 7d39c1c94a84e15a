//! A wrapper around a store that injects faults.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use branchline_trace::journal;

use super::draw::drawn;
use super::fault_plan::{next, FaultKind, FaultPlan, Requests};
use crate::secrets::without_secrets;
use crate::servers::failure::Fault;
use crate::settings::Settings;
use crate::{Around, RangeRead, ReadEffort, Result, StorageError, StorageErrorKind, Store};

/// A store in which opening and reading fail according to a fault plan.
pub struct Faulty {
    inner: Arc<dyn Store>,
    plan: FaultPlan,
    requests: Arc<AtomicU64>,
    settings: Settings,
}

impl Faulty {
    /// Opens a store with `open` and wraps it. Opening may fail too. `words` is the fault plan as a string.
    pub fn around(words: &str, path: &str, open: impl FnOnce() -> Result<Arc<dyn Store>>) -> Result<Self> {
        Self::open(words, path, &Settings::from_environment()?, open)
    }

    pub(crate) fn open(
        words: &str,
        path: &str,
        settings: &Settings,
        open: impl FnOnce() -> Result<Arc<dyn Store>>,
    ) -> Result<Self> {
        let plan: FaultPlan = words.parse().map_err(|reason| StorageError::option(path, reason))?;
        let requests = Requests::of(words).at(path);
        if let Some(kind) = plan.hit(path, next(&requests))
            && kind != FaultKind::Wrong
        {
            return Err(fails(kind, &plan, settings, &FaultyRequest { path, server: "the storage", reads: &[] }));
        }
        Ok(Self { inner: open()?, plan, requests, settings: settings.clone() })
    }
}

/// A request that fails, with the file's path, the server and the requested ranges.
struct FaultyRequest<'a> {
    path: &'a str,
    server: &'a str,
    reads: &'a [RangeRead],
}

/// Waits as long as this kind of fault takes, records the failed request in the trace, and returns the request's error.
fn fails(kind: FaultKind, plan: &FaultPlan, settings: &Settings, request: &FaultyRequest<'_>) -> StorageError {
    let path = without_secrets(request.path);
    let spans = request.reads.iter().map(|read| (read.range.offset, read.range.length));
    let mut traced = journal::request("fault", &path, request.server, spans);
    let fault = fault_of(kind, plan, settings, request.server);
    if let Some(traced) = &mut traced {
        traced.ended(kind.name());
    }
    fault.at(&path, request.reads.first().map(|read| read.range))
}

/// Waits as long as this kind of fault takes, and returns the failure.
fn fault_of(kind: FaultKind, plan: &FaultPlan, settings: &Settings, server: &str) -> Fault {
    use StorageErrorKind::{NotFound, Protocol, Timeout, Unreachable};
    match kind {
        FaultKind::Stall => {
            std::thread::sleep(plan.stall.unwrap_or(settings.silence));
            Fault::new(Timeout, format!("{server} did not answer in time (injected by the fault plan)"))
        }
        FaultKind::Hang => loop {
            std::thread::park();
        },
        FaultKind::Reset => {
            Fault::new(Unreachable, format!("{server} closed the connection (injected by the fault plan)"))
        }
        FaultKind::Short | FaultKind::Wrong => {
            Fault::new(Protocol, format!("{server} sent fewer bytes than requested (injected by the fault plan)"))
        }
        FaultKind::Missing => {
            Fault::new(NotFound, format!("there is no such file at {server} (injected by the fault plan)"))
        }
    }
}

impl Around for Faulty {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn is_near(&self) -> bool {
        false
    }

    fn read_ranges(&self, reads: &mut [RangeRead]) -> Result<ReadEffort> {
        let number = next(&self.requests);
        match self.plan.hit(self.path(), number) {
            None => self.inner.read_ranges(reads),
            Some(FaultKind::Wrong) => {
                let effort = self.inner.read_ranges(reads)?;
                change_a_byte(reads, drawn(self.plan.seed, ("byte", number)));
                Ok(effort)
            }
            Some(kind) => Err(fails(
                kind,
                &self.plan,
                &self.settings,
                &FaultyRequest { path: self.path(), server: self.name(), reads },
            )),
        }
    }
}

/// Flips one bit of the bytes that were read; `number` determines which bit.
fn change_a_byte(reads: &mut [RangeRead], number: u64) {
    let all: u64 = reads.iter().map(|read| read.range.length).sum();
    let Some(mut position) = number.checked_rem(all) else { return };
    for read in reads {
        if position < read.range.length {
            if let Some(byte) = read.room().get_mut(position as usize) {
                *byte ^= 1 << (number >> 32 & 7);
            }
            return;
        }
        position -= read.range.length;
    }
}
