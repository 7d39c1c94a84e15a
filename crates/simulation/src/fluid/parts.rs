//! Resources, flows, and what the flows of one resource take of another.

use std::collections::BinaryHeap;

use crate::queue::{Later, Time};

/// The number of a resource.
pub type ResourceId = usize;
/// The number of a flow; it is given again after the flow has ended.
pub type FlowId = usize;
/// The number of a crossing; it is given again, too.
pub(super) type CrossingId = usize;

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
    /// Where it is accounted for, if another resource of the route holds the flow back.
    pub(super) crossing: Option<CrossingId>,
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

/// A flow that ends at this progress of its resource, or, at its own bound, at this time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) at: Time,
    pub(super) flow: FlowId,
    pub(super) stamp: u32,
}

/// What the flows that the resource `by` holds back take of the resource `at`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing {
    pub(super) by: ResourceId,
    pub(super) at: ResourceId,
    /// What they take for one unit of each, summed.
    pub(super) demand: f64,
    pub(super) count: usize,
    /// Up to this level of `by` there is room in `at`; without an end where `at` is used up, and follows each change.
    pub(super) booked: f64,
    /// Where it stands in the list `crosses` of `by` and in the list `crossed` of `at`.
    pub(super) in_crosses: usize,
    pub(super) in_crossed: usize,
}

/// A resource.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) units_per_s: f64,
    /// Its flows, and where it stands in the route of each.
    pub(super) flows: Vec<(FlowId, usize)>,
    /// Whether it is used up and holds flows back.
    pub(super) is_full: bool,
    /// The rate of the flows that it holds back; infinite if there are none.
    pub(super) level: f64,
    /// What each of these flows would have moved if it had been there since the begin, at the time `since_s`.
    pub(super) progress: f64,
    pub(super) since_s: f64,
    /// The weights of these flows.
    pub(super) own_demand: f64,
    pub(super) own_count: usize,
    /// None of these flows has a lower bound of its own.
    pub(super) own_bound: f64,
    /// What these flows take of others; first of those that are used up, of which there are so many.
    pub(super) crosses: Vec<CrossingId>,
    pub(super) crosses_full: usize,
    /// Up to this level there is room in those that are not used up.
    pub(super) limit: f64,
    /// What flows take of it that others hold back.
    pub(super) crossed: Vec<CrossingId>,
    /// What flows at their own bound take of it.
    pub(super) bound_use: f64,
    pub(super) bound_count: usize,
    /// If it is used up: what all flows take of it that it does not hold back.
    pub(super) other_use: f64,
    /// How often that was changed since it was summed anew.
    pub(super) changes: usize,
    /// If it is used up: no flow is faster than this that it does not hold back.
    pub(super) floor: f64,
    /// If it is not used up: what flows take of it at the levels that are booked.
    pub(super) booked_use: f64,
    pub(super) keys: BinaryHeap<Later<Key>>,
    pub(super) moved: f64,
    pub(super) limited_flow_s: f64,
    /// Whether its level is to be found again.
    pub(super) is_touched: bool,
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
}

impl Resource {
    pub(super) fn new(units_per_s: f64) -> Self {
        Self {
            units_per_s,
            flows: Vec::new(),
            is_full: false,
            level: f64::INFINITY,
            progress: 0.0,
            since_s: 0.0,
            own_demand: 0.0,
            own_count: 0,
            own_bound: f64::INFINITY,
            crosses: Vec::new(),
            crosses_full: 0,
            limit: f64::INFINITY,
            crossed: Vec::new(),
            bound_use: 0.0,
            bound_count: 0,
            other_use: 0.0,
            changes: 0,
            floor: 0.0,
            booked_use: 0.0,
            keys: BinaryHeap::new(),
            moved: 0.0,
            limited_flow_s: 0.0,
            is_touched: false,
            mark: 0,
            filling: Filling::default(),
        }
    }

    pub(super) fn progress_at(&self, now_s: f64) -> f64 {
        if self.own_count > 0 {
            self.progress + self.level * (now_s - self.since_s)
        } else {
            self.progress
        }
    }

    /// Its progress becomes that of this time; from then on its level may change.
    pub(super) fn advance(&mut self, now_s: f64) {
        self.progress = self.progress_at(now_s);
        self.limited_flow_s += self.own_count as f64 * (now_s - self.since_s);
        self.since_s = now_s;
    }

    /// The level at which the flows that it holds back use up what others leave; below all if there are none.
    pub(super) fn fair_level(&self) -> f64 {
        if self.own_count > 0 {
            ((self.units_per_s - self.other_use) / self.own_demand).max(0.0)
        } else {
            f64::NEG_INFINITY
        }
    }
}
