//! A wrapper around a store that fails as a plan says.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use branchline_trace::journal;

use super::draw::drawn;
use super::fault_plan::{next, FaultKind, FaultPlan, Requests};
use crate::secrets::without_secrets;
use crate::servers::failure::Fault;
use crate::settings::Settings;
use crate::{Around, RangeRead, ReadEffort, Result, StorageError, StorageErrorKind, Store};

/// Opening the file and every call are requests, of which some fail.
pub struct Faulty {
    inner: Arc<dyn Store>,
    plan: FaultPlan,
    requests: Arc<AtomicU64>,
    settings: Settings,
}

impl Faulty {
    /// Makes the store that `open` gives fail, and the opening too: `words` say how.
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
        if let Some(kind) = plan.hit(path, next(&requests)) {
            if kind != FaultKind::Wrong {
                return Err(fails(kind, &plan, settings, &FaultyRequest { path, server: "the storage", reads: &[] }));
            }
        }
        Ok(Self { inner: open()?, plan, requests, settings: settings.clone() })
    }
}

/// A request that fails: a file at a server, and its ranges.
struct FaultyRequest<'a> {
    path: &'a str,
    server: &'a str,
    reads: &'a [RangeRead],
}

/// Makes a request fail and returns its error. A trace has the request, too, with its duration.
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

/// Waits as long as this kind of fault does, and returns its error.
fn fault_of(kind: FaultKind, plan: &FaultPlan, settings: &Settings, server: &str) -> Fault {
    use StorageErrorKind::{NotFound, Protocol, Timeout, Unreachable};
    match kind {
        FaultKind::Stall => {
            std::thread::sleep(plan.stall.unwrap_or(settings.silence));
            Fault::new(Timeout, format!("{server} did not answer in time, as the fault plan says"))
        }
        FaultKind::Hang => loop {
            std::thread::park();
        },
        FaultKind::Reset => Fault::new(Unreachable, format!("{server} closed the connection, as the fault plan says")),
        FaultKind::Short | FaultKind::Wrong => {
            Fault::new(Protocol, format!("{server} answered with fewer bytes than requested, as the fault plan says"))
        }
        FaultKind::Missing => {
            Fault::new(NotFound, format!("there is no such file at {server}, as the fault plan says"))
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

/// Changes one of all the bytes that were read.
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
