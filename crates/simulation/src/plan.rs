//! What a job does: blocks that it reads and computes, and how far its reading runs ahead.

use crate::error::{not_negative, positive, Error, Result};

/// What one request reads, and what is computed of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The number of the storage that has it.
    pub storage: usize,
    /// Its bytes.
    pub bytes: f64,
    /// Operations of the disk.
    pub operations: f64,
    /// Round trips until its bytes begin to come.
    pub round_trips: f64,
    /// Seconds of one core to compute it.
    pub cpu_s: f64,
}

/// How reading runs ahead of computing.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Requests that are due at a time.
    pub requests_in_flight: usize,
    /// Bytes that are due at a time; one request may have more.
    pub bytes_in_flight: f64,
    /// Blocks that may be read, or be on their way, beyond the one that is computed; 0 where the job reads a block only
    /// when the one before is done.
    pub blocks_ahead: usize,
    /// Cores that compute a block.
    pub threads: f64,
}

/// The blocks of a job in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Blocks in the order in which they are read and computed.
    pub blocks: Vec<Block>,
    /// How it reads.
    pub reading: Reading,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The number of its plan.
    pub plan: usize,
    /// The number of its node; None for the node with the fewest jobs that has a free slot.
    pub node: Option<usize>,
    /// When it comes.
    pub start_s: f64,
    /// What it takes before its first request: a process that starts.
    pub prepare_s: f64,
    /// Its blocks take so many times the plan's seconds to compute.
    pub cpu_factor: f64,
    /// Jobs with the same plan and the same number read the same bytes, which a cache may have.
    pub data: u64,
}

impl Plan {
    pub(crate) fn check(&self, storages: usize) -> Result<()> {
        if self.blocks.is_empty() {
            return Err(Error("a plan has no blocks".to_owned()));
        }
        for one in &self.blocks {
            if one.storage >= storages {
                return Err(Error(format!("a block is at storage {}, and there are {storages}", one.storage)));
            }
            not_negative(one.bytes, "the size of a block")?;
            not_negative(one.operations, "the operations of a block")?;
            not_negative(one.round_trips, "the round trips of a block")?;
            not_negative(one.cpu_s, "the time to compute a block")?;
        }
        if self.reading.requests_in_flight == 0 {
            return Err(Error("a job has no request in flight; give at least 1".to_owned()));
        }
        positive(self.reading.threads, "the threads of a job")?;
        positive(self.reading.bytes_in_flight, "the bytes in flight")?;
        Ok(())
    }
}

impl Job {
    pub(crate) fn check(&self, plans: usize, nodes: usize) -> Result<()> {
        if self.plan >= plans {
            return Err(Error(format!("a job has plan {}, and there are {plans}", self.plan)));
        }
        if self.node.is_some_and(|node| node >= nodes) {
            return Err(Error(format!("a job is at node {:?}, and there are {nodes}", self.node)));
        }
        not_negative(self.start_s, "the start of a job")?;
        not_negative(self.prepare_s, "the time to prepare a job")?;
        not_negative(self.cpu_factor, "the factor of computing")?;
        Ok(())
    }
}
