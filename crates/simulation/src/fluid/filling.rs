//! Recomputes the rates of connected flows by progressive filling: all rates grow together until a resource is
//! saturated or a flow reaches its bound. The flows through that resource, or the flow at its bound, keep their rates,
//! and all other rates continue to grow (Bertsekas and Gallager, Data Networks, 6.5.2).

use std::collections::BinaryHeap;

use super::parts::{Attached, Filling, FlowId, ResourceId};
use super::Fluid;
use crate::queue::{Later, Time};

/// Levels within this factor are considered equal, to absorb rounding errors.
const SAME_LEVEL: f64 = 1.0 + 1e-12;

/// A flow with its bottleneck and rate.
struct Held {
    flow: FlowId,
    by: Attached,
    rate: f64,
}

impl Fluid {
    /// Recomputes the rates of all flows connected to changed resources.
    pub(super) fn fill_connected(&mut self) {
        self.fillings += 1;
        let resources = self.connected();
        for one in &resources {
            let now_s = self.now_s;
            self.resources[*one].advance(now_s);
        }
        let held = self.fill(&resources);
        self.attach_all(&resources, &held);
        for one in &resources {
            if self.resources[*one].is_full {
                self.schedule(*one);
            } else {
                self.due.set(*one, None);
                self.books(*one);
            }
        }
        self.touched.clear();
        resources.iter().for_each(|one| self.resources[*one].is_touched = false);
    }

    /// Returns the changed resources and all resources connected to them through flows.
    fn connected(&mut self) -> Vec<ResourceId> {
        self.marks = self.marks.wrapping_add(1);
        let mut found: Vec<_> = self.touched.iter().map(|Later((_, resource))| *resource).collect();
        found.sort_unstable();
        found.iter().for_each(|one| self.resources[*one].mark = self.marks);
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

    /// Computes the bottleneck of each flow, in ascending order of rates.
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

    /// Attaches flows to their bottlenecks and rebuilds all totals. Flows that keep their bottleneck also keep their
    /// progress there.
    fn attach_all(&mut self, resources: &[ResourceId], held: &[Held]) {
        self.forget_accounts(resources);
        for one in held {
            if self.flows[one.flow].attached != one.by {
                self.attach(one.flow, one.by);
            }
        }
        for one in resources {
            let one = &mut self.resources[*one];
            (one.is_full, one.level) = (false, f64::INFINITY);
        }
        for one in held {
            if let Attached::Resource(resource) = one.by {
                let resource = &mut self.resources[resource];
                (resource.is_full, resource.level) = (true, one.rate);
            }
        }
        held.iter().for_each(|one| self.count_in(one.flow));
    }

    fn forget_accounts(&mut self, resources: &[ResourceId]) {
        for id in resources {
            for crossing in std::mem::take(&mut self.resources[*id].crosses) {
                self.crossing_ids.remove(&(*id, self.crossings[crossing].at));
                self.free_crossings.push(crossing);
            }
            let one = &mut self.resources[*id];
            one.crossed.clear();
            (one.own_demand, one.own_count, one.own_bound) = (0.0, 0, f64::INFINITY);
            (one.bound_use, one.bound_count, one.other_use, one.changes) = (0.0, 0, 0.0, 0);
            (one.crosses_full, one.limit, one.floor, one.booked_use) = (0, f64::INFINITY, 0.0, 0.0);
        }
    }
}

/// The flows whose rates have been computed.
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
