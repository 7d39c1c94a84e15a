//! State of a running job: the blocks that were requested, read and computed.

use crate::fluid::FlowId;
use crate::plan::{Job, Plan};

/// A running job.
#[derive(Debug)]
pub(crate) struct JobRun {
    pub(crate) job: Job,
    pub(crate) node: usize,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) is_running: bool,
    /// Index of the next block to request.
    next_read: usize,
    /// Index of the block that is being computed, or of the next block to compute.
    next_computed: usize,
    /// For each block from `next_computed` on, whether it has been read.
    is_read: std::collections::VecDeque<bool>,
    is_computing: bool,
    requests: usize,
    bytes_due: f64,
    pub(crate) read_bytes: f64,
    pub(crate) cached_bytes: f64,
    pub(crate) cpu_s: f64,
    pub(crate) computing_s: f64,
    pub(crate) flows: Vec<FlowId>,
}

impl JobRun {
    pub(crate) fn new(job: Job) -> Self {
        Self {
            job,
            node: 0,
            begin_s: 0.0,
            end_s: 0.0,
            is_running: false,
            next_read: 0,
            next_computed: 0,
            is_read: std::collections::VecDeque::new(),
            is_computing: false,
            requests: 0,
            bytes_due: 0.0,
            read_bytes: 0.0,
            cached_bytes: 0.0,
            cpu_s: 0.0,
            computing_s: 0.0,
            flows: Vec::new(),
        }
    }

    /// Returns the next block that may be requested now, and marks it as requested.
    pub(crate) fn request(&mut self, plan: &Plan) -> Option<usize> {
        let block = plan.blocks.get(self.next_read)?;
        let reading = &plan.reading;
        let is_near = self.next_read <= self.next_computed + reading.blocks_ahead;
        let has_room = self.requests == 0
            || (self.requests < reading.requests_in_flight && self.bytes_due + block.bytes <= reading.bytes_in_flight);
        if !is_near || !has_room {
            return None;
        }
        self.requests += 1;
        self.bytes_due += block.bytes;
        self.is_read.push_back(false);
        self.next_read += 1;
        Some(self.next_read - 1)
    }

    /// Records that a block has arrived.
    pub(crate) fn came(&mut self, plan: &Plan, block: usize) {
        self.requests -= 1;
        self.bytes_due -= plan.blocks[block].bytes;
        self.read_bytes += plan.blocks[block].bytes;
        self.is_read[block - self.next_computed] = true;
    }

    /// Returns the next block to compute, if it has been read and no block is being computed, and marks it as being
    /// computed.
    pub(crate) fn compute(&mut self) -> Option<usize> {
        if self.is_computing || self.is_read.front() != Some(&true) {
            return None;
        }
        self.is_computing = true;
        Some(self.next_computed)
    }

    /// Records that a block has been computed.
    pub(crate) fn computed(&mut self) {
        self.is_computing = false;
        self.is_read.pop_front();
        self.next_computed += 1;
    }

    pub(crate) fn is_done(&self, plan: &Plan) -> bool {
        self.next_computed == plan.blocks.len()
    }
}
