//! A store around a store that fails as a plan says.

use std::sync::atomic::AtomicU64;
use std::sync::Arc;

use branchline_trace::journal;

use super::draw::drawn;
use super::fault_plan::{next, FaultKind, FaultPlan, Requests};
use crate::fault::Fault;
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
        Self::open(words, path, &Settings::from_environment(), open)
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
                return Err(fails(kind, &plan, settings, &Asked { path, server: "the storage", reads: &[] }));
            }
        }
        Ok(Self { inner: open()?, plan, requests, settings: settings.clone() })
    }
}

/// What a request is for: a file at a server, and its ranges.
struct Asked<'a> {
    path: &'a str,
    server: &'a str,
    reads: &'a [RangeRead],
}

/// Lets a request fail, and answers with what is said then. A trace has it, too, as long as it took.
fn fails(kind: FaultKind, plan: &FaultPlan, settings: &Settings, asked: &Asked<'_>) -> StorageError {
    let spans = asked.reads.iter().map(|read| (read.range.offset, read.range.length));
    let mut told = journal::request("fault", asked.path, asked.server, spans);
    let fault = fault_of(kind, plan, settings, asked.server);
    if let Some(told) = &mut told {
        told.ended(kind.name());
    }
    fault.at(asked.path, asked.reads.first().map(|read| read.range))
}

/// Waits as long as this kind of fault does, and answers with what is said then.
fn fault_of(kind: FaultKind, plan: &FaultPlan, settings: &Settings, server: &str) -> Fault {
    use StorageErrorKind::{NotFound, Protocol, Timeout, Unreachable};
    match kind {
        FaultKind::Stall => {
            std::thread::sleep(plan.stall.unwrap_or(settings.silence));
            Fault::new(Timeout, format!("{server} did not answer in time, as it was told to"))
        }
        FaultKind::Hang => loop {
            std::thread::park();
        },
        FaultKind::Reset => Fault::new(Unreachable, format!("{server} closed the connection, as it was told to")),
        FaultKind::Short | FaultKind::Wrong => {
            Fault::new(Protocol, format!("{server} answered with fewer bytes than asked, as it was told to"))
        }
        FaultKind::Missing => Fault::new(NotFound, format!("there is no such file at {server}, as it was told to say")),
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
            Some(kind) => {
                Err(fails(kind, &self.plan, &self.settings, &Asked { path: self.path(), server: self.name(), reads }))
            }
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
