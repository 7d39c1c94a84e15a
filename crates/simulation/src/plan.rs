//! Plans of jobs: the blocks that a job reads and processes, and how far it reads ahead.

use crate::error::{not_negative, positive, Error, Result};

/// Bytes that a job reads with one request and then processes in one step.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Index of the storage that contains the block.
    pub storage: usize,
    /// Size of the block.
    pub bytes: f64,
    /// Number of disk operations.
    pub operations: f64,
    /// Round trips until the first byte arrives.
    pub round_trips: f64,
    /// Seconds that one core needs to process the block.
    pub cpu_s: f64,
}

/// How far a job reads ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    /// Maximum number of requests in flight.
    pub requests_in_flight: usize,
    /// Maximum number of bytes in flight; a single request may exceed it.
    pub bytes_in_flight: f64,
    /// Maximum number of blocks that may be requested or read ahead of the block that is being processed; 0 if the job
    /// reads a block only after processing the previous one.
    pub blocks_ahead: usize,
    /// Number of cores that process a block.
    pub threads: f64,
}

/// The blocks of a job, and its read-ahead limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Blocks in the order in which they are read and processed.
    pub blocks: Vec<Block>,
    /// Read-ahead limits of the job.
    pub reading: Reading,
}

/// A job.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Index of its plan.
    pub plan: usize,
    /// Index of its node; None for the node with a free slot that has the fewest jobs.
    pub node: Option<usize>,
    /// Submission time.
    pub start_s: f64,
    /// Startup time before its first request.
    pub prepare_s: f64,
    /// Factor applied to the processing time of the plan's blocks.
    pub cpu_factor: f64,
    /// Jobs with the same plan and the same `data` read the same bytes, which may be cached.
    pub data: u64,
}

impl Plan {
    pub(crate) fn check(&self, storages: usize) -> Result<()> {
        if self.blocks.is_empty() {
            return Err(Error("a plan has no blocks".to_owned()));
        }
        for one in &self.blocks {
            if one.storage >= storages {
                return Err(Error(format!("a block is at storage {}, but there are {storages} storages", one.storage)));
            }
            not_negative(one.bytes, "the size of a block")?;
            not_negative(one.operations, "the operations of a block")?;
            not_negative(one.round_trips, "the round trips of a block")?;
            not_negative(one.cpu_s, "the time to compute a block")?;
        }
        if self.reading.requests_in_flight == 0 {
            return Err(Error("the requests in flight of a job must be at least 1, got 0".to_owned()));
        }
        positive(self.reading.threads, "the threads of a job")?;
        positive(self.reading.bytes_in_flight, "the bytes in flight")?;
        Ok(())
    }
}

impl Job {
    pub(crate) fn check(&self, plans: usize, nodes: usize) -> Result<()> {
        if self.plan >= plans {
            return Err(Error(format!("a job has plan {}, but there are {plans} plans", self.plan)));
        }
        if let Some(node) = self.node.filter(|node| *node >= nodes) {
            return Err(Error(format!("a job is at node {node}, but there are {nodes} nodes")));
        }
        not_negative(self.start_s, "the start of a job")?;
        not_negative(self.prepare_s, "the startup time of a job")?;
        not_negative(self.cpu_factor, "the CPU factor of a job")?;
        Ok(())
    }
}
