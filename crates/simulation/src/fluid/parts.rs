//! Resources, flows, and when they are due.

use std::collections::BinaryHeap;

use crate::queue::{Later, Time};

/// The number of a resource.
pub type ResourceId = usize;
/// The number of a flow; it is given again after the flow has ended.
pub type FlowId = usize;

/// Levels that a change of one may change directly: more of them cost as much as computing all again.
const CROSSINGS_MAX: usize = 32;

/// What holds a flow back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Attached {
    /// It is not known yet.
    #[default]
    Nothing,
    /// Its own bound.
    Bound,
    /// This resource, which is used up.
    Resource(ResourceId),
}

/// A resource of a flow's route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) resource: ResourceId,
    /// Units that it takes for one unit of the flow.
    pub(super) weight: f64,
    /// Where the flow stands in the resource's list.
    pub(super) position: usize,
}

/// A flow.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) uses: Vec<Use>,
    pub(super) amount: f64,
    /// What is left, while nothing is known to hold it back.
    pub(super) left: f64,
    pub(super) bound: f64,
    pub(super) attached: Attached,
    /// The progress of its resource at which it ends; at its own bound, the time.
    pub(super) key: f64,
    /// Changes with what it is attached to, so that what was noted before does not count.
    pub(super) stamp: u32,
    /// Whether the present computation has its rate.
    pub(super) mark: u32,
}

/// A flow that ends at this progress of its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) progress: Time,
    pub(super) flow: FlowId,
    pub(super) stamp: u32,
}

/// What comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DueTo {
    /// A flow at its own bound.
    Flow { flow: FlowId, stamp: u32 },
    /// The first of the flows that a resource holds back.
    Resource { resource: ResourceId, version: u32 },
}

/// What comes to its end, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    pub(super) at: Time,
    pub(super) to: DueTo,
}

/// A resource.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) units_per_s: f64,
    /// Its flows, and where it stands in the route of each.
    pub(super) flows: Vec<(FlowId, usize)>,
    /// The rate of the flows that it holds back; infinite if there are none.
    pub(super) level: f64,
    /// What each of these flows would have moved if it had been there since the begin, at the time `since_s`.
    pub(super) progress: f64,
    pub(super) since_s: f64,
    /// The weights of these flows.
    pub(super) attached_demand: f64,
    pub(super) attached_count: usize,
    /// What the other flows take of it.
    pub(super) other_use: f64,
    /// Above this level another resource may be used up, or a flow be at its bound.
    pub(super) limit: f64,
    /// Below this level it may hold back flows that it does not hold back now: the highest limit of these.
    pub(super) floor: f64,
    /// Other resources that are used up, and what the flows that it holds back take of them for one unit each.
    pub(super) crossings: Vec<(ResourceId, f64)>,
    /// There are too many of them.
    pub(super) is_tangled: bool,
    /// The most that flows take which it does not hold back, at the limits of what does.
    pub(super) reserved: f64,
    pub(super) keys: BinaryHeap<Later<Key>>,
    pub(super) version: u32,
    pub(super) moved: f64,
    pub(super) limited_flow_s: f64,
    /// Whether a search has been here.
    pub(super) mark: u32,
    pub(super) filling: Filling,
}

/// What is left of a resource while rates are computed.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Filling {
    pub(super) units_left: f64,
    pub(super) demand: f64,
    pub(super) count: usize,
    /// By how much the rates of flows may grow until it is used up, with room for flows that begin.
    pub(super) growth: f64,
}

impl Resource {
    pub(super) fn new(units_per_s: f64) -> Self {
        Self {
            units_per_s,
            flows: Vec::new(),
            level: f64::INFINITY,
            progress: 0.0,
            since_s: 0.0,
            attached_demand: 0.0,
            attached_count: 0,
            other_use: 0.0,
            limit: f64::INFINITY,
            floor: 0.0,
            crossings: Vec::new(),
            is_tangled: false,
            reserved: 0.0,
            keys: BinaryHeap::new(),
            version: 0,
            moved: 0.0,
            limited_flow_s: 0.0,
            mark: 0,
            filling: Filling::default(),
        }
    }

    /// Whether it holds flows back.
    pub(super) fn is_full(&self) -> bool {
        self.attached_count > 0
    }

    pub(super) fn progress_at(&self, now_s: f64) -> f64 {
        if self.is_full() {
            self.progress + self.level * (now_s - self.since_s)
        } else {
            self.progress
        }
    }

    /// A flow that it holds back takes more of another resource that is used up, or less.
    pub(super) fn crosses(&mut self, resource: ResourceId, weight: f64) {
        if let Some((_, demand)) = self.crossings.iter_mut().find(|(other, _)| *other == resource) {
            *demand += weight;
        } else if self.crossings.len() < CROSSINGS_MAX {
            self.crossings.push((resource, weight));
        } else {
            self.is_tangled = true;
        }
    }

    /// Its progress becomes that of this time; from then on its level may change.
    pub(super) fn advance(&mut self, now_s: f64) {
        self.progress = self.progress_at(now_s);
        self.limited_flow_s += self.attached_count as f64 * (now_s - self.since_s);
        self.since_s = now_s;
    }
}
