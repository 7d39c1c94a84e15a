//! Flows that share resources by max-min fairness: no flow could be faster without one that is no faster becoming
//! slower.
//!
//! Each flow is held back by one thing, its *bottleneck*: a resource that is used up, or the flow's own bound. All
//! flows whose bottleneck is the same resource have the same rate, the *level* of that resource. So the resource alone
//! keeps account of what each of them has moved (`progress`), and a change of its level costs the same whether it has
//! three flows or ten thousand. A flow that begins or ends changes the level of its bottleneck, and those of higher
//! levels that its flows cross, and nothing else, as long as each level stays between two bounds that were found when
//! the rates were last computed. Only where it leaves them are the rates of all flows computed again that are connected
//! through resources (`filling.rs`).

mod filling;
mod parts;

use std::collections::BinaryHeap;

use crate::queue::{Later, Time};
use parts::{Attached, Due, DueTo, Flow, Key, Resource, Use};

pub use parts::{FlowId, ResourceId};

/// Levels that follow from a change, one after the other, before all are computed again.
const STEPS_MAX: u32 = 8;
/// Differences of sums that are rounding.
const ROUNDING: f64 = 1.0 + 1e-9;

/// Resources and the flows through them.
#[derive(Debug, Default)]
pub struct Fluid {
    resources: Vec<Resource>,
    flows: Vec<Flow>,
    free: Vec<FlowId>,
    /// Resources whose flows have changed and whose rates have to be computed again.
    dirty: Vec<ResourceId>,
    due: BinaryHeap<Later<Due>>,
    now_s: f64,
    marks: u32,
    fillings: u64,
    /// Every change computes all connected rates again: for tests that compare.
    always_fills: bool,
}

impl Fluid {
    /// Without any resource.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same, but every change computes the rates of all connected flows again.
    pub fn filling_always() -> Self {
        Self { always_fills: true, ..Self::default() }
    }

    /// A resource that gives so many units a second.
    pub fn add_resource(&mut self, units_per_s: f64) -> ResourceId {
        self.resources.push(Resource::new(units_per_s));
        self.resources.len() - 1
    }

    /// How often the rates of all connected flows were computed again.
    pub fn fillings_count(&self) -> u64 {
        self.fillings
    }

    /// Units that a resource has given to flows that have ended.
    pub fn moved(&self, resource: ResourceId) -> f64 {
        self.resources[resource].moved
    }

    /// Seconds that flows were held back by a resource, summed over flows.
    pub fn limited_flow_s(&self, resource: ResourceId) -> f64 {
        let one = &self.resources[resource];
        one.limited_flow_s + one.attached_count as f64 * (self.now_s - one.since_s)
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
        });
        let uses = uses.collect();
        let flow = &mut self.flows[id];
        (flow.uses, flow.amount, flow.left, flow.bound) = (uses, amount, amount, bound);
        flow.attached = Attached::Nothing;
        if !self.joins(id) {
            self.dirty.extend(route.iter().map(|(resource, _)| *resource));
        }
        id
    }

    /// Ends a flow; returns how much of it was left.
    pub fn stop(&mut self, now_s: f64, id: FlowId) -> f64 {
        self.goes_on(now_s);
        let left = self.left(id);
        let is_quiet = self.leaves(id);
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
            if !is_quiet {
                self.dirty.push(one.resource);
            }
        }
        self.free.push(id);
        left
    }

    /// When the next flow ends, if none begins or is stopped before, and which one it is.
    pub fn next_end(&mut self) -> Option<(f64, FlowId)> {
        self.settle();
        while let Some(Later(due)) = self.due.peek() {
            let found = match due.to {
                DueTo::Flow { flow, stamp } => (self.flows[flow].stamp == stamp).then_some(flow),
                DueTo::Resource { resource, version } => {
                    let one = &self.resources[resource];
                    (one.version == version).then(|| one.keys.peek().map(|key| key.0.flow)).flatten()
                }
            };
            if let Some(flow) = found {
                return Some((due.at.0.max(self.now_s), flow));
            }
            self.due.pop();
        }
        None
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

    /// The resources of its route that are used up.
    fn full_ones(&self, id: FlowId) -> Vec<Use> {
        let is_full = |one: &&Use| self.resources[one.resource].is_full();
        self.flows[id].uses.iter().filter(is_full).copied().collect()
    }

    /// Lets a flow begin where that changes levels only. If not, all connected rates have to be computed again,
    /// whatever was changed until that was seen.
    fn joins(&mut self, id: FlowId) -> bool {
        if self.flows[id].uses.is_empty() {
            self.attach_to_bound(id);
            return true;
        }
        if self.always_fills || !self.dirty.is_empty() {
            return false;
        }
        let full = self.full_ones(id);
        let bound = self.flows[id].bound;
        let lowest = full.iter().min_by(|a, b| {
            let level = |one: &Use| self.resources[one.resource].level;
            level(a).total_cmp(&level(b)).then(a.resource.cmp(&b.resource))
        });
        let Some(lowest) = lowest.copied() else { return self.joins_free(id) };
        let one = &self.resources[lowest.resource];
        if (one.units_per_s - one.other_use) / (one.attached_demand + lowest.weight) > bound {
            return self.joins_at_bound(id, &full);
        }
        self.joins_at(id, lowest, &full)
    }

    /// A flow on whose route nothing is used up: it is at its bound, or it alone uses up what nobody else uses.
    fn joins_free(&mut self, id: FlowId) -> bool {
        let bound = self.flows[id].bound;
        if bound.is_finite() && self.reserve(id, None, bound) {
            self.attach_to_bound(id);
            return true;
        }
        let spare = |one: &Use| {
            let resource = &self.resources[one.resource];
            (resource.units_per_s - resource.reserved) / one.weight
        };
        let narrow = self.flows[id].uses.iter().min_by(|a, b| spare(a).total_cmp(&spare(b))).copied();
        let Some(Use { resource, weight, .. }) = narrow else { return false };
        let now_s = self.now_s;
        let level = self.resources[resource].units_per_s / weight;
        if self.resources[resource].flows.len() > 1 || level > bound || !self.reserve(id, Some(resource), level) {
            return false;
        }
        let one = &mut self.resources[resource];
        one.advance(now_s);
        (one.attached_demand, one.attached_count, one.other_use) = (weight, 1, 0.0);
        (one.limit, one.floor, one.level, one.reserved) = (level, 0.0, level, 0.0);
        one.crossings.clear();
        one.is_tangled = false;
        self.attach_to(id, resource);
        true
    }

    fn joins_at_bound(&mut self, id: FlowId, full: &[Use]) -> bool {
        let bound = self.flows[id].bound;
        self.attach_to_bound(id);
        self.reserve(id, None, bound)
            && full.iter().all(|one| {
                let resource = &mut self.resources[one.resource];
                resource.floor = resource.floor.max(bound);
                self.takes_more(one.resource, one.weight * bound, STEPS_MAX)
            })
    }

    fn joins_at(&mut self, id: FlowId, own: Use, full: &[Use]) -> bool {
        let bound = self.flows[id].bound;
        let now_s = self.now_s;
        let one = &mut self.resources[own.resource];
        one.advance(now_s);
        one.limit = one.limit.min(bound);
        one.attached_demand += own.weight;
        one.attached_count += 1;
        let (limit, level) = (one.limit, one.level);
        if !self.reserve(id, Some(own.resource), limit) {
            return false;
        }
        self.notes_crossings(id, own.resource, 1.0);
        for other in full.iter().filter(|other| other.resource != own.resource) {
            let resource = &mut self.resources[other.resource];
            resource.floor = resource.floor.max(limit);
            if !self.takes_more(other.resource, other.weight * level, STEPS_MAX) {
                return false;
            }
        }
        self.attach_to(id, own.resource);
        self.find_level(own.resource, STEPS_MAX)
    }

    /// Lets a flow end where that changes levels only; see `joins`.
    fn leaves(&mut self, id: FlowId) -> bool {
        if self.flows[id].uses.is_empty() {
            return true;
        }
        if self.always_fills || !self.dirty.is_empty() {
            return false;
        }
        let (attached, bound) = (self.flows[id].attached, self.flows[id].bound);
        let full = self.full_ones(id);
        let (own, limit, rate) = match attached {
            Attached::Nothing => return false,
            Attached::Bound => (None, bound, bound),
            Attached::Resource(resource) => {
                let one = &self.resources[resource];
                (Some(resource), one.limit, one.level)
            }
        };
        self.release(id, own, limit);
        if let Some(own) = own {
            self.notes_crossings(id, own, -1.0);
        }
        for other in full.iter().filter(|other| Some(other.resource) != own) {
            if !self.takes_more(other.resource, -other.weight * rate, STEPS_MAX) {
                return false;
            }
        }
        let Some(own) = own else { return true };
        let weight = full.iter().find(|one| one.resource == own).map_or(0.0, |one| one.weight);
        self.flows[id].stamp = self.flows[id].stamp.wrapping_add(1);
        let now_s = self.now_s;
        let one = &mut self.resources[own];
        one.advance(now_s);
        one.attached_demand -= weight;
        one.attached_count -= 1;
        if one.attached_count == 0 {
            (one.attached_demand, one.level) = (0.0, f64::INFINITY);
            self.schedule(own);
            let one = &self.resources[own];
            return one.reserved <= one.units_per_s;
        }
        self.find_level(own, STEPS_MAX)
    }

    /// Notes what a flow takes of others than what holds it back: of those that are used up, or were when others came.
    fn notes_crossings(&mut self, id: FlowId, own: ResourceId, sign: f64) {
        for one in self.flows[id].uses.iter().filter(|one| one.resource != own) {
            let is_full = self.resources[one.resource].is_full();
            let resource = &mut self.resources[own];
            if is_full || resource.crossings.iter().any(|(other, _)| *other == one.resource) {
                resource.crosses(one.resource, sign * one.weight);
            }
        }
    }

    /// Flows that a resource does not hold back take more of it, or less. False if more changes than levels.
    fn takes_more(&mut self, resource: ResourceId, units_per_s: f64, steps_left: u32) -> bool {
        let now_s = self.now_s;
        let one = &mut self.resources[resource];
        one.advance(now_s);
        one.other_use = (one.other_use + units_per_s).max(0.0);
        !one.is_full() || self.find_level(resource, steps_left)
    }

    /// The level of a resource from what its flows take, and then those of resources that these flows cross: they are
    /// higher, so that this ends.
    fn find_level(&mut self, resource: ResourceId, steps_left: u32) -> bool {
        let one = &self.resources[resource];
        let level = (one.units_per_s - one.other_use) / one.attached_demand;
        let change = level - one.level;
        let is_within = level >= one.floor && level <= one.limit * ROUNDING;
        if !is_within || one.is_tangled || steps_left == 0 {
            return false;
        }
        self.set_level(resource, level);
        (0..self.resources[resource].crossings.len()).all(|place| {
            let (other, demand) = self.resources[resource].crossings[place];
            self.takes_more(other, change * demand, steps_left - 1)
        })
    }

    /// Books the most that a flow may take of what does not hold it back. False if a resource that is not used up has
    /// too little.
    fn reserve(&mut self, id: FlowId, own: Option<ResourceId>, rate: f64) -> bool {
        let uses = self.flows[id].uses.iter().filter(|one| Some(one.resource) != own);
        let fits = uses.clone().all(|one| {
            let resource = &self.resources[one.resource];
            resource.is_full() || resource.reserved + one.weight * rate <= resource.units_per_s * ROUNDING
        });
        if fits {
            uses.for_each(|one| self.resources[one.resource].reserved += one.weight * rate);
        }
        fits
    }

    fn release(&mut self, id: FlowId, own: Option<ResourceId>, rate: f64) {
        for one in self.flows[id].uses.iter().filter(|one| Some(one.resource) != own) {
            self.resources[one.resource].reserved -= one.weight * rate;
        }
    }

    /// A flow at its own bound ends at a time that does not change.
    fn attach_to_bound(&mut self, id: FlowId) {
        let left = self.left(id);
        let flow = &mut self.flows[id];
        flow.stamp = flow.stamp.wrapping_add(1);
        flow.attached = Attached::Bound;
        flow.key = self.now_s + left / flow.bound;
        let due = Due { at: Time(flow.key), to: DueTo::Flow { flow: id, stamp: flow.stamp } };
        self.due.push(Later(due));
    }

    /// A flow with this bottleneck, whose progress is that of now.
    fn attach_to(&mut self, id: FlowId, resource: ResourceId) {
        self.attach_without_schedule(id, resource);
        self.schedule(resource);
    }

    fn attach_without_schedule(&mut self, id: FlowId, resource: ResourceId) {
        let left = self.left(id);
        let flow = &mut self.flows[id];
        flow.stamp = flow.stamp.wrapping_add(1);
        flow.attached = Attached::Resource(resource);
        let one = &mut self.resources[resource];
        flow.key = one.progress + left;
        one.keys.push(Later(Key { progress: Time(flow.key), flow: id, stamp: flow.stamp }));
    }

    fn set_level(&mut self, resource: ResourceId, level: f64) {
        self.resources[resource].level = level;
        self.schedule(resource);
    }

    /// Notes when the next flow with this bottleneck ends.
    fn schedule(&mut self, resource: ResourceId) {
        let one = &mut self.resources[resource];
        one.version = one.version.wrapping_add(1);
        while let Some(Later(key)) = one.keys.peek() {
            if self.flows[key.flow].stamp == key.stamp {
                let at = Time(one.since_s + (key.progress.0 - one.progress).max(0.0) / one.level);
                self.due.push(Later(Due { at, to: DueTo::Resource { resource, version: one.version } }));
                return;
            }
            one.keys.pop();
        }
    }
}
