//! Resources, flows, and crossings of resources.

use std::collections::BinaryHeap;

use crate::queue::{Later, Time};

/// Index of a resource.
pub type ResourceId = usize;
/// Index of a flow; reused after the flow has ended.
pub type FlowId = usize;
/// Index of a crossing; reused after the crossing has ended.
pub(super) type CrossingId = usize;

/// Bottleneck of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Attached {
    /// Not known yet.
    #[default]
    Nothing,
    /// The flow's own bound.
    Bound,
    /// This saturated resource.
    Resource(ResourceId),
}

/// A resource on the route of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) resource: ResourceId,
    /// Units of the resource used per unit of the flow.
    pub(super) weight: f64,
    /// Index of the flow in the resource's list.
    pub(super) position: usize,
    /// Crossing that includes this use, if another resource on the route is the bottleneck.
    pub(super) crossing: Option<CrossingId>,
}

/// A flow.
#[derive(Debug, Default)]
pub(super) struct Flow {
    pub(super) uses: Vec<Use>,
    pub(super) amount: f64,
    /// Remaining amount of the flow, while its bottleneck is unknown.
    pub(super) left: f64,
    pub(super) bound: f64,
    pub(super) attached: Attached,
    /// The flow ends when its bottleneck resource reaches this progress. For a flow at its own bound, the time at which
    /// it ends.
    pub(super) key: f64,
    /// Incremented with every change of the bottleneck, to invalidate older keys.
    pub(super) stamp: u32,
    /// ID of the last computation that has found the flow's rate.
    pub(super) mark: u32,
}

/// The end of a flow, as a sort key: the progress of the flow's bottleneck resource at that time or, for a flow at its
/// own bound, the time itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) at: Time,
    pub(super) flow: FlowId,
    pub(super) stamp: u32,
}

/// Total usage of a resource by all flows that have the same other resource as their bottleneck.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crossing {
    /// The bottleneck.
    pub(super) by: ResourceId,
    /// The crossed resource.
    pub(super) at: ResourceId,
    /// Sum of the weights that the flows have at the crossed resource.
    pub(super) demand: f64,
    pub(super) count: usize,
    /// Level of the bottleneck up to which the crossed resource has reserved capacity. Infinite if the crossed resource
    /// is saturated: it then follows every change of the level.
    pub(super) booked: f64,
    /// Index of this crossing in the list `crosses` of the bottleneck.
    pub(super) in_crosses: usize,
    /// Index of this crossing in the list `crossed` of the crossed resource.
    pub(super) in_crossed: usize,
}

/// A resource.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) units_per_s: f64,
    /// The flows through the resource, each with the index of the resource in the flow's route.
    pub(super) flows: Vec<(FlowId, usize)>,
    /// Whether the resource is saturated and the bottleneck of some flows.
    pub(super) is_full: bool,
    /// Rate of the flows with this bottleneck; infinite if there are no such flows.
    pub(super) level: f64,
    /// Integral of the level over the time until `since_s`: the volume of a flow that always had this bottleneck.
    pub(super) progress: f64,
    pub(super) since_s: f64,
    /// Sum of the weights of the flows with this bottleneck.
    pub(super) own_demand: f64,
    pub(super) own_count: usize,
    /// No flow with this bottleneck has a bound below this value.
    pub(super) own_bound: f64,
    /// Crossings of other resources by the flows with this bottleneck. The first `crosses_full` of these resources are
    /// saturated.
    pub(super) crosses: Vec<CrossingId>,
    pub(super) crosses_full: usize,
    /// Level up to which every unsaturated resource in `crosses` has reserved capacity for the flows.
    pub(super) limit: f64,
    /// Crossings of this resource by flows with another bottleneck.
    pub(super) crossed: Vec<CrossingId>,
    /// Usage by flows at their own bound.
    pub(super) bound_use: f64,
    pub(super) bound_count: usize,
    /// For a saturated resource: usage by all flows with another bottleneck.
    pub(super) other_use: f64,
    /// Number of changes of `other_use` since it was recomputed.
    pub(super) changes: usize,
    /// For a saturated resource: upper limit of the rates of flows with another bottleneck. These flows only have to be
    /// checked if the level of the resource falls below this floor.
    pub(super) floor: f64,
    /// For an unsaturated resource: usage if all levels were as high as the reserved capacity allows.
    pub(super) booked_use: f64,
    pub(super) keys: BinaryHeap<Later<Key>>,
    pub(super) moved: f64,
    pub(super) limited_flow_s: f64,
    /// Whether the level of the resource must be recomputed.
    pub(super) is_touched: bool,
    /// ID of the last search that has visited this resource.
    pub(super) mark: u32,
    pub(super) filling: Filling,
}

/// Remaining capacity of a resource while rates are recomputed.
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

    /// Updates the progress to this time. Must be called before the level changes.
    pub(super) fn advance(&mut self, now_s: f64) {
        self.progress = self.progress_at(now_s);
        self.limited_flow_s += self.own_count as f64 * (now_s - self.since_s);
        self.since_s = now_s;
    }

    /// Returns the level at which the flows with this bottleneck use exactly the capacity that other flows leave.
    /// Negative infinity if there are no flows with this bottleneck.
    pub(super) fn fair_level(&self) -> f64 {
        if self.own_count > 0 {
            ((self.units_per_s - self.other_use) / self.own_demand).max(0.0)
        } else {
            f64::NEG_INFINITY
        }
    }
}
