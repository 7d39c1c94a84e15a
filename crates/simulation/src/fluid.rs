//! Flows that share resources with max-min fairness: no flow's rate can be increased without decreasing an equal or
//! lower rate of another flow.
//!
//! Each flow has one *bottleneck*: a saturated resource, or the flow's own bound. All flows with the same bottleneck
//! resource have the same rate, the *level* of that resource. The resource therefore needs only one number (`progress`)
//! for the volume that each of these flows has moved, and a change of its level costs the same for three flows as for
//! ten thousand. A *crossing* is the total usage of another resource by all flows with the same bottleneck, which is
//! also a single number (`accounts.rs`). A flow that starts or ends changes the level of its bottleneck and the levels
//! of the resources that the bottleneck's flows cross, and moves a few flows to other bottlenecks (`levels.rs`).
//! Unsaturated resources reserve capacity for growing levels: a level that grows within the reserved capacity does not
//! have to be checked against them. If these updates take too many steps, the rates of all flows that are connected
//! through resources are recomputed (`filling.rs`).
//!
//! ```
//! use branchline_simulation::fluid::Fluid;
//!
//! let mut fluid = Fluid::new();
//! let disk = fluid.add_resource(100.0);
//! let one = fluid.start(0.0, 500.0, &[(disk, 1.0)], f64::INFINITY);
//! let other = fluid.start(0.0, 900.0, &[(disk, 1.0)], f64::INFINITY);
//! assert_eq!((fluid.rate(one), fluid.rate(other)), (50.0, 50.0));
//! assert_eq!(fluid.next_end(), Some((10.0, one)));
//! ```

mod accounts;
mod filling;
mod levels;
mod parts;

use std::collections::{BinaryHeap, HashMap};

use crate::queue::{Later, Time, Timetable};
use parts::{Attached, Crossing, CrossingId, Flow, Key, Resource, Use};

pub use parts::{FlowId, ResourceId};

/// Relative tolerance for rounding errors in sums.
const ROUNDING: f64 = 1.0 + 1e-11;

/// Resources and the flows through them.
#[derive(Debug, Default)]
pub struct Fluid {
    resources: Vec<Resource>,
    flows: Vec<Flow>,
    free: Vec<FlowId>,
    crossings: Vec<Crossing>,
    free_crossings: Vec<CrossingId>,
    /// ID of the crossing for each pair of a bottleneck and a crossed resource.
    crossing_ids: HashMap<(ResourceId, ResourceId), CrossingId>,
    /// Resources whose level must be recomputed, the lowest level first.
    touched: BinaryHeap<Later<(Time, ResourceId)>>,
    /// For each bottleneck resource, the time at which the next of its flows ends.
    due: Timetable,
    /// Ends of flows that run at their own bound.
    bound_keys: BinaryHeap<Later<Key>>,
    now_s: f64,
    marks: u32,
    fillings: u64,
    levels: u64,
    moves: u64,
    /// Whether every change recomputes the rates of all connected flows. For comparison in tests.
    always_fills: bool,
    /// Maximum number of steps before the rates of all connected flows are recomputed. None to use the number of steps
    /// that cost as much as the recomputation.
    steps_max: Option<usize>,
}

/// Counts of the work spent on computing rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Number of level computations. Includes checks that find a resource unsaturated.
    pub levels_count: u64,
    /// Number of flows that moved to another bottleneck.
    pub moves_count: u64,
    /// Number of recomputations of the rates of all connected flows.
    pub fillings_count: u64,
}

impl Fluid {
    /// Creates a simulation without resources.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like [`Fluid::new`], but every change recomputes the rates of all connected flows.
    pub fn filling_always() -> Self {
        Self { always_fills: true, ..Self::default() }
    }

    /// Like [`Fluid::new`], but recomputes the rates of all connected flows after this number of steps. For tests.
    pub fn filling_after(steps: usize) -> Self {
        Self { steps_max: Some(steps), ..Self::default() }
    }

    /// Adds a resource with this capacity per second.
    pub fn add_resource(&mut self, units_per_s: f64) -> ResourceId {
        self.resources.push(Resource::new(units_per_s));
        self.resources.len() - 1
    }

    /// Returns the work spent on computing rates until now.
    pub fn effort(&self) -> Effort {
        Effort { levels_count: self.levels, moves_count: self.moves, fillings_count: self.fillings }
    }

    /// Returns the units that a resource has provided to flows that have ended.
    pub fn moved(&self, resource: ResourceId) -> f64 {
        self.resources[resource].moved
    }

    /// Returns the sum over all flows of the seconds during which this resource was their bottleneck.
    pub fn limited_flow_s(&self, resource: ResourceId) -> f64 {
        let one = &self.resources[resource];
        one.limited_flow_s + one.own_count as f64 * (self.now_s - one.since_s)
    }

    /// Starts a flow of `amount` units with a rate of at most `bound` units per second. `route` has pairs of a resource
    /// and a weight: each unit of the flow uses that number of units of the resource. The resources must be distinct,
    /// and the weights positive.
    pub fn start(&mut self, now_s: f64, amount: f64, route: &[(ResourceId, f64)], bound: f64) -> FlowId {
        self.goes_on(now_s);
        let id = self.free.pop().unwrap_or_else(|| {
            self.flows.push(Flow::default());
            self.flows.len() - 1
        });
        for (slot, (resource, _)) in route.iter().enumerate() {
            self.resources[*resource].flows.push((id, slot));
        }
        let uses = route.iter().map(|(resource, weight)| Use {
            resource: *resource,
            weight: *weight,
            position: self.resources[*resource].flows.len() - 1,
            crossing: None,
        });
        let uses = uses.collect();
        let flow = &mut self.flows[id];
        (flow.uses, flow.amount, flow.left, flow.bound) = (uses, amount, amount, bound);
        flow.attached = Attached::Nothing;
        if self.always_fills && !route.is_empty() {
            route.iter().for_each(|(resource, _)| self.touch(*resource));
        } else {
            let first = self.first_bottleneck(id);
            self.attach(id, first);
            self.count_in(id);
        }
        id
    }

    /// Stops a flow and returns its remaining amount.
    pub fn stop(&mut self, now_s: f64, id: FlowId) -> f64 {
        self.goes_on(now_s);
        let left = self.left(id);
        self.count_out(id);
        let flow = &mut self.flows[id];
        let (uses, moved) = (std::mem::take(&mut flow.uses), flow.amount - left);
        flow.stamp = flow.stamp.wrapping_add(1);
        flow.attached = Attached::Nothing;
        for one in &uses {
            let resource = &mut self.resources[one.resource];
            resource.moved += moved * one.weight;
            resource.flows.swap_remove(one.position);
            if let Some((other, slot)) = resource.flows.get(one.position).copied() {
                self.flows[other].uses[slot].position = one.position;
            }
            if self.always_fills {
                self.touch(one.resource);
            }
        }
        self.free.push(id);
        left
    }

    /// Returns the time at which the next flow ends, and the ID of that flow. The time is valid until another flow
    /// starts or is stopped.
    pub fn next_end(&mut self) -> Option<(f64, FlowId)> {
        self.settle();
        while let Some(Later(key)) = self.bound_keys.peek() {
            if self.flows[key.flow].stamp == key.stamp {
                break;
            }
            self.bound_keys.pop();
        }
        let bound = self.bound_keys.peek().map(|Later(key)| (key.at, key.flow));
        let held = self.due.first().and_then(|(at, resource)| {
            let first = self.resources[resource].keys.peek();
            first.map(|Later(key)| (at, key.flow))
        });
        let first = match (bound, held) {
            (Some(one), Some(other)) if other.0 < one.0 => Some(other),
            (one, other) => one.or(other),
        };
        first.map(|(at, flow)| (at.0.max(self.now_s), flow))
    }

    /// Returns the current rate of a flow.
    pub fn rate(&mut self, id: FlowId) -> f64 {
        self.settle();
        match self.flows[id].attached {
            Attached::Nothing => 0.0,
            Attached::Bound => self.flows[id].bound,
            Attached::Resource(resource) => self.resources[resource].level,
        }
    }

    fn goes_on(&mut self, now_s: f64) {
        if now_s > self.now_s {
            self.settle();
            self.now_s = now_s;
        }
    }

    /// Returns the remaining amount of a flow at the current time.
    fn left(&self, id: FlowId) -> f64 {
        let flow = &self.flows[id];
        match flow.attached {
            Attached::Nothing => flow.left,
            Attached::Bound if flow.bound.is_infinite() => 0.0,
            Attached::Bound => ((flow.key - self.now_s) * flow.bound).max(0.0),
            Attached::Resource(resource) => (flow.key - self.resources[resource].progress_at(self.now_s)).max(0.0),
        }
    }

    /// Returns a first guess of a new flow's bottleneck; computing the levels corrects it.
    fn first_bottleneck(&mut self, id: FlowId) -> Attached {
        let bound = self.flows[id].bound;
        let full = self.flows[id].uses.iter().map(|one| one.resource).filter(|one| self.resources[*one].is_full);
        let lowest = full.map(|one| (Time(self.resources[one].level), one)).min();
        if let Some((level, resource)) = lowest {
            return if bound <= level.0 { Attached::Bound } else { Attached::Resource(resource) };
        }
        // Minimum and maximum rate that a resource can give the flow.
        let spare = |one: &Use| {
            let resource = &self.resources[one.resource];
            let least = (resource.units_per_s - resource.booked_use) / one.weight;
            (Time(least), Time(resource.units_per_s / one.weight), one.resource)
        };
        match self.flows[id].uses.iter().map(spare).min().filter(|_| bound.is_infinite()) {
            Some((_, most, resource)) => {
                self.fills_up(resource, most.0);
                Attached::Resource(resource)
            }
            None => Attached::Bound,
        }
    }
}
