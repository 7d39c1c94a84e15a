//! Flows that share resources by max-min fairness: no flow could be faster without one that is no faster becoming
//! slower.
//!
//! Each flow is held back by one thing, its *bottleneck*: a resource that is used up, or the flow's own bound. All
//! flows whose bottleneck is the same resource have the same rate, the *level* of that resource. So the resource alone
//! keeps account of what each of them has moved (`progress`), and a change of its level costs the same whether it has
//! three flows or ten thousand. What these flows take of another resource is one number, too, a *crossing*
//! (`accounts.rs`). A flow that begins or ends changes the level of its bottleneck and of what its flows cross, and a
//! few flows change their bottleneck (`levels.rs`). Of a resource that is not used up, room is booked for levels that
//! grow, so that not each change of a level asks each resource. Only where all that takes too many steps are the rates
//! of all flows computed anew that are connected through resources (`filling.rs`).

mod accounts;
mod filling;
mod levels;
mod parts;

use std::collections::{BinaryHeap, HashMap};

use crate::queue::{Later, Time, Timetable};
use parts::{Attached, Crossing, CrossingId, Flow, Key, Resource, Use};

pub use parts::{FlowId, ResourceId};

/// Differences of sums that are rounding.
const ROUNDING: f64 = 1.0 + 1e-11;

/// Resources and the flows through them.
#[derive(Debug, Default)]
pub struct Fluid {
    resources: Vec<Resource>,
    flows: Vec<Flow>,
    free: Vec<FlowId>,
    crossings: Vec<Crossing>,
    free_crossings: Vec<CrossingId>,
    /// By what holds flows back, and what these take.
    crossing_ids: HashMap<(ResourceId, ResourceId), CrossingId>,
    /// Resources whose level is to be found again, the lowest level first.
    touched: BinaryHeap<Later<(Time, ResourceId)>>,
    /// When the first flow ends that a resource holds back.
    due: Timetable,
    /// When flows end that are at their own bound.
    bound_keys: BinaryHeap<Later<Key>>,
    now_s: f64,
    marks: u32,
    fillings: u64,
    levels: u64,
    moves: u64,
    /// Every change computes all connected rates anew: for tests that compare.
    always_fills: bool,
    /// Steps before all connected rates are computed anew, if not as many as that would cost.
    steps_max: Option<usize>,
}

/// What finding rates has cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// How often the level of one resource was found, or that it is not used up.
    pub levels_count: u64,
    /// How often a flow got another bottleneck.
    pub moves_count: u64,
    /// How often the rates of all connected flows were computed from nothing.
    pub fillings_count: u64,
}

impl Fluid {
    /// Without any resource.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, but every change computes the rates of all connected flows from nothing.
    pub fn filling_always() -> Self {
        Self { always_fills: true, ..Self::default() }
    }

    /// The same, but the rates of all connected flows are computed again where finding levels takes more steps: for
    /// tests of that.
    pub fn filling_after(steps: usize) -> Self {
        Self { steps_max: Some(steps), ..Self::default() }
    }

    /// A resource that gives so many units a second.
    pub fn add_resource(&mut self, units_per_s: f64) -> ResourceId {
        self.resources.push(Resource::new(units_per_s));
        self.resources.len() - 1
    }

    /// What finding rates has cost until now.
    pub fn effort(&self) -> Effort {
        Effort { levels_count: self.levels, moves_count: self.moves, fillings_count: self.fillings }
    }

    /// Units that a resource has given to flows that have ended.
    pub fn moved(&self, resource: ResourceId) -> f64 {
        self.resources[resource].moved
    }

    /// Seconds that flows were held back by a resource, summed over flows.
    pub fn limited_flow_s(&self, resource: ResourceId) -> f64 {
        let one = &self.resources[resource];
        one.limited_flow_s + one.own_count as f64 * (self.now_s - one.since_s)
    }

    /// Begins a flow of `amount`, at most `bound` a second. Of each resource it takes `weight` units for one of its
    /// own; resources differ, and weights are above zero.
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

    /// Ends a flow; returns how much of it was left.
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

    /// When the next flow ends, if none begins or is stopped before, and which one it is.
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

    /// The rate of a flow.
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

    /// What a flow has yet to move now.
    fn left(&self, id: FlowId) -> f64 {
        let flow = &self.flows[id];
        match flow.attached {
            Attached::Nothing => flow.left,
            Attached::Bound if flow.bound.is_infinite() => 0.0,
            Attached::Bound => ((flow.key - self.now_s) * flow.bound).max(0.0),
            Attached::Resource(resource) => (flow.key - self.resources[resource].progress_at(self.now_s)).max(0.0),
        }
    }

    /// What holds a new flow back as far as one sees at once: what is wrong about it is found when levels are.
    fn first_bottleneck(&mut self, id: FlowId) -> Attached {
        let bound = self.flows[id].bound;
        let full = self.flows[id].uses.iter().map(|one| one.resource).filter(|one| self.resources[*one].is_full);
        let lowest = full.map(|one| (Time(self.resources[one].level), one)).min();
        if let Some((level, resource)) = lowest {
            return if bound <= level.0 { Attached::Bound } else { Attached::Resource(resource) };
        }
        // What it may have at least of each resource.
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
