//! The rates of connected flows, computed from nothing: all grow together until a resource is used up or a flow is at
//! its bound; these stay, and the others grow on (progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2).

use std::collections::BinaryHeap;

use super::parts::{Attached, Filling};
use super::{FlowId, Fluid, ResourceId};
use crate::queue::{Later, Time};

/// Levels that differ by less are the same: their difference is rounding.
const SAME_LEVEL: f64 = 1.0 + 1e-12;

/// A level may grow so much until all is computed again: bounds of several levels stay apart.
const GROWTH_MAX: f64 = 4.0;

/// A flow and what holds it back.
struct Held {
    flow: FlowId,
    by: Attached,
    rate: f64,
}

impl Fluid {
    /// Computes the rates that a change has touched.
    pub(super) fn settle(&mut self) {
        if self.dirty.is_empty() {
            return;
        }
        self.fillings += 1;
        let resources = self.connected();
        for one in &resources {
            let now_s = self.now_s;
            self.resources[*one].advance(now_s);
        }
        let held = self.fill(&resources);
        self.attach_all(&resources, &held);
        self.find_limits(&resources, &held);
        for one in resources {
            self.schedule(one);
        }
    }

    /// The resources that are connected through flows with those that have changed.
    fn connected(&mut self) -> Vec<ResourceId> {
        self.marks = self.marks.wrapping_add(1);
        let mut found = std::mem::take(&mut self.dirty);
        found.retain(|one| {
            let is_new = self.resources[*one].mark != self.marks;
            self.resources[*one].mark = self.marks;
            is_new
        });
        let mut next = 0;
        while next < found.len() {
            for place in 0..self.resources[found[next]].flows.len() {
                let (flow, _) = self.resources[found[next]].flows[place];
                for one in &self.flows[flow].uses {
                    let resource = &mut self.resources[one.resource];
                    if resource.mark != self.marks {
                        resource.mark = self.marks;
                        found.push(one.resource);
                    }
                }
            }
            next += 1;
        }
        found
    }

    /// What holds back each flow, in the order of their rates.
    fn fill(&mut self, resources: &[ResourceId]) -> Vec<Held> {
        let mut flows = Vec::new();
        let mut levels = BinaryHeap::with_capacity(resources.len());
        for id in resources {
            let mut filling = Filling { units_left: self.resources[*id].units_per_s, ..Filling::default() };
            for (flow, slot) in &self.resources[*id].flows {
                filling.demand += self.flows[*flow].uses[*slot].weight;
                filling.count += 1;
                if *slot == 0 {
                    flows.push(*flow);
                }
            }
            if filling.count > 0 {
                levels.push(Later((Time(filling.units_left / filling.demand), *id)));
            }
            self.resources[*id].filling = filling;
        }
        let mut bounded: Vec<_> = flows.iter().copied().filter(|one| self.flows[*one].bound.is_finite()).collect();
        bounded.sort_by(|a, b| self.flows[*a].bound.total_cmp(&self.flows[*b].bound).then(a.cmp(b)));
        let mut is_held = HeldFlows::new(flows.len());
        let mut bounded = bounded.into_iter().peekable();
        while let Some(Later((Time(noted), id))) = levels.pop() {
            let Filling { units_left, demand, count, .. } = self.resources[id].filling;
            if count == 0 {
                continue;
            }
            let level = (units_left / demand).max(0.0);
            if level > noted * SAME_LEVEL {
                levels.push(Later((Time(level), id)));
                continue;
            }
            let next_bounded = loop {
                match bounded.peek() {
                    Some(flow) if is_held.has(self, *flow) => bounded.next(),
                    Some(flow) if self.flows[*flow].bound <= level => break Some(*flow),
                    _ => break None,
                };
            };
            if let Some(flow) = next_bounded {
                let rate = self.flows[flow].bound;
                self.hold(&mut is_held, flow, Attached::Bound, rate);
                levels.push(Later((Time(noted), id)));
                continue;
            }
            for place in 0..self.resources[id].flows.len() {
                let (flow, _) = self.resources[id].flows[place];
                if !is_held.has(self, flow) {
                    self.hold(&mut is_held, flow, Attached::Resource(id), level);
                }
            }
        }
        is_held.all
    }

    fn hold(&mut self, held: &mut HeldFlows, flow: FlowId, by: Attached, rate: f64) {
        for one in &self.flows[flow].uses {
            let filling = &mut self.resources[one.resource].filling;
            filling.units_left = (filling.units_left - one.weight * rate).max(0.0);
            filling.demand -= one.weight;
            filling.count -= 1;
        }
        held.add(self, Held { flow, by, rate });
    }

    /// Attaches flows to what holds them back. Those that were attached to it before keep their account there.
    fn attach_all(&mut self, resources: &[ResourceId], held: &[Held]) {
        let lefts: Vec<_> = held.iter().map(|one| self.left(one.flow)).collect();
        for id in resources {
            let one = &mut self.resources[*id];
            (one.level, one.attached_demand, one.attached_count) = (f64::INFINITY, 0.0, 0);
            (one.other_use, one.floor, one.reserved, one.is_tangled) = (0.0, 0.0, 0.0, false);
            one.crossings.clear();
        }
        for (one, left) in held.iter().zip(lefts) {
            if let Attached::Resource(resource) = one.by {
                self.resources[resource].level = one.rate;
            }
            for used in &self.flows[one.flow].uses {
                let resource = &mut self.resources[used.resource];
                if one.by == Attached::Resource(used.resource) {
                    resource.attached_demand += used.weight;
                    resource.attached_count += 1;
                } else {
                    resource.other_use += used.weight * one.rate;
                }
            }
            if self.flows[one.flow].attached != one.by {
                self.flows[one.flow].attached = Attached::Nothing;
                self.flows[one.flow].left = left;
                match one.by {
                    Attached::Resource(resource) => self.attach_without_schedule(one.flow, resource),
                    _ => self.attach_to_bound(one.flow),
                }
            }
        }
    }

    /// Between which levels of resources nothing but these levels changes.
    fn find_limits(&mut self, resources: &[ResourceId], held: &[Held]) {
        for id in resources {
            let one = &mut self.resources[*id];
            let is_used = one.other_use > 0.0 && !one.is_full();
            // Half of the room, in terms of factors, is for flows that begin.
            one.filling.growth =
                if is_used { (one.units_per_s / one.other_use).sqrt().max(1.0) } else { f64::INFINITY };
            one.limit = f64::INFINITY;
        }
        for one in held {
            let Attached::Resource(resource) = one.by else { continue };
            let mut limit = self.flows[one.flow].bound.min(one.rate * GROWTH_MAX);
            for used in self.flows[one.flow].uses.iter().filter(|used| used.resource != resource) {
                let other = &self.resources[used.resource];
                let highest =
                    if other.is_full() { (one.rate * other.level).sqrt() } else { one.rate * other.filling.growth };
                limit = limit.min(highest);
            }
            let own = &mut self.resources[resource];
            own.limit = own.limit.min(limit);
        }
        for one in held {
            let (own, limit) = match one.by {
                Attached::Resource(resource) => (Some(resource), self.resources[resource].limit),
                _ => (None, one.rate),
            };
            for used in self.flows[one.flow].uses.iter().filter(|used| Some(used.resource) != own) {
                let resource = &mut self.resources[used.resource];
                resource.reserved += used.weight * limit;
                resource.floor = resource.floor.max(limit);
                if let Some(own) = own.filter(|_| resource.is_full()) {
                    self.resources[own].crosses(used.resource, used.weight);
                }
            }
        }
    }
}

/// The flows whose rates are found.
struct HeldFlows {
    all: Vec<Held>,
}

impl HeldFlows {
    fn new(count: usize) -> Self {
        Self { all: Vec::with_capacity(count) }
    }

    fn has(&self, fluid: &Fluid, flow: FlowId) -> bool {
        fluid.flows[flow].mark == fluid.marks
    }

    fn add(&mut self, fluid: &mut Fluid, held: Held) {
        fluid.flows[held.flow].mark = fluid.marks;
        self.all.push(held);
    }
}
