//! Where a job stands: which of its blocks are on their way, read and computed.

use crate::fluid::FlowId;
use crate::plan::{Job, Plan};

/// A job at work.
#[derive(Debug)]
pub(crate) struct JobRun {
    pub(crate) job: Job,
    pub(crate) node: usize,
    pub(crate) begin_s: f64,
    pub(crate) end_s: f64,
    pub(crate) is_running: bool,
    /// The next block to request.
    next_read: usize,
    /// The next block to compute: those before are done, or it is being computed.
    next_computed: usize,
    /// Whether the blocks from `next_computed` on are read.
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

    /// The next block that may be requested now; it is on its way then.
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

    /// A block has come.
    pub(crate) fn came(&mut self, plan: &Plan, block: usize) {
        self.requests -= 1;
        self.bytes_due -= plan.blocks[block].bytes;
        self.read_bytes += plan.blocks[block].bytes;
        self.is_read[block - self.next_computed] = true;
    }

    /// The next block, if it can be computed now; it is being computed then.
    pub(crate) fn compute(&mut self) -> Option<usize> {
        if self.is_computing || self.is_read.front() != Some(&true) {
            return None;
        }
        self.is_computing = true;
        Some(self.next_computed)
    }

    /// A block is computed.
    pub(crate) fn computed(&mut self) {
        self.is_computing = false;
        self.is_read.pop_front();
        self.next_computed += 1;
    }

    pub(crate) fn is_done(&self, plan: &Plan) -> bool {
        self.next_computed == plan.blocks.len()
    }
}
