//! Bookkeeping of flows and resources, from which fair-share levels are computed.

use super::parts::{Attached, Crossing, CrossingId, Key};
use super::{FlowId, Fluid, ResourceId, ROUNDING};
use crate::queue::{Later, Time};

/// A new crossing reserves capacity for the level to grow by this factor, without checking the remaining capacity.
const FIRST_GROWTH: f64 = 2.0;
/// Fraction of the free capacity to reserve for rising levels. The rest is left for new flows.
const BOOKED_PART: f64 = 0.5;
/// Maximum ratio of keys to flows before stale keys are purged.
const STALE_KEYS_MAX: usize = 4;

impl Fluid {
    /// Moves a flow to its new bottleneck and keeps its remaining volume.
    pub(super) fn move_to(&mut self, id: FlowId, by: Attached) {
        self.count_out(id);
        self.attach(id, by);
        self.count_in(id);
    }

    /// Sets the bottleneck of a flow and schedules its end, without updating any totals.
    pub(super) fn attach(&mut self, id: FlowId, by: Attached) {
        let left = self.left(id);
        let now_s = self.now_s;
        let flow = &mut self.flows[id];
        (flow.attached, flow.left, flow.stamp) = (by, left, flow.stamp.wrapping_add(1));
        match by {
            Attached::Nothing => {}
            Attached::Bound => {
                flow.key = now_s + left / flow.bound;
                self.bound_keys.push(Later(Key { at: Time(flow.key), flow: id, stamp: flow.stamp }));
            }
            Attached::Resource(resource) => {
                let one = &mut self.resources[resource];
                one.advance(now_s);
                flow.key = one.progress + left;
                one.keys.push(Later(Key { at: Time(flow.key), flow: id, stamp: flow.stamp }));
                if one.keys.len() > STALE_KEYS_MAX * (one.own_count + 16) {
                    let flows = &self.flows;
                    one.keys.retain(|Later(key)| flows[key.flow].stamp == key.stamp);
                }
            }
        }
    }

    /// Adds a flow to the totals of every resource it uses.
    pub(super) fn count_in(&mut self, id: FlowId) {
        let (attached, bound) = (self.flows[id].attached, self.flows[id].bound);
        for slot in 0..self.flows[id].uses.len() {
            let used = self.flows[id].uses[slot];
            match attached {
                Attached::Nothing => {}
                Attached::Bound => {
                    let one = &mut self.resources[used.resource];
                    one.bound_use += used.weight * bound;
                    one.bound_count += 1;
                    self.takes_more(used.resource, used.weight * bound, used.weight * bound, bound);
                }
                Attached::Resource(own) if own == used.resource => {
                    let one = &mut self.resources[own];
                    one.own_demand += used.weight;
                    one.own_count += 1;
                    one.own_bound = one.own_bound.min(bound);
                    self.touch(own);
                }
                Attached::Resource(own) => {
                    let crossing = self.crossing_of(own, used.resource);
                    self.flows[id].uses[slot].crossing = Some(crossing);
                    let one = &mut self.crossings[crossing];
                    one.demand += used.weight;
                    one.count += 1;
                    let (level, booked) = (self.resources[own].level, one.booked);
                    self.takes_more(used.resource, used.weight * level, used.weight * booked, level);
                }
            }
        }
    }

    /// Removes a flow from all totals.
    pub(super) fn count_out(&mut self, id: FlowId) {
        let (attached, bound, now_s) = (self.flows[id].attached, self.flows[id].bound, self.now_s);
        if let Attached::Resource(own) = attached {
            self.resources[own].advance(now_s);
        }
        for slot in 0..self.flows[id].uses.len() {
            let used = self.flows[id].uses[slot];
            match attached {
                Attached::Nothing => {}
                Attached::Bound => {
                    let one = &mut self.resources[used.resource];
                    one.bound_count -= 1;
                    one.bound_use = if one.bound_count == 0 { 0.0 } else { one.bound_use - used.weight * bound };
                    self.takes_more(used.resource, -used.weight * bound, -used.weight * bound, 0.0);
                }
                Attached::Resource(own) if own == used.resource => {
                    let one = &mut self.resources[own];
                    one.own_demand -= used.weight;
                    one.own_count -= 1;
                    self.touch(own);
                }
                Attached::Resource(own) => {
                    let Some(crossing) = self.flows[id].uses[slot].crossing.take() else { continue };
                    let one = &mut self.crossings[crossing];
                    one.demand -= used.weight;
                    one.count -= 1;
                    let (level, booked, is_last) = (self.resources[own].level, one.booked, one.count == 0);
                    self.takes_more(used.resource, -used.weight * level, -used.weight * booked, 0.0);
                    if is_last {
                        self.end_crossing(crossing);
                    }
                }
            }
        }
        if let Attached::Resource(own) = attached
            && self.resources[own].own_count == 0
        {
            self.empties(own);
        }
    }

    /// Changes the usage of a resource by flows with another bottleneck. `now` is the change of the current usage,
    /// `booked` the change of the reserved usage (both may be negative), and `rate` the highest rate of these flows.
    pub(super) fn takes_more(&mut self, resource: ResourceId, now: f64, booked: f64, rate: f64) {
        let one = &mut self.resources[resource];
        if one.is_full {
            one.other_use += now;
            one.changes += 1;
            one.floor = one.floor.max(rate);
            self.touch(resource);
        } else {
            one.booked_use += booked;
            if booked > 0.0 && one.booked_use > one.units_per_s * ROUNDING {
                self.touch(resource);
            }
        }
    }

    /// Returns the crossing of the resource `at` by flows with the bottleneck `by`. Creates it if it does not exist.
    fn crossing_of(&mut self, by: ResourceId, at: ResourceId) -> CrossingId {
        if let Some(found) = self.crossing_ids.get(&(by, at)) {
            return *found;
        }
        let is_full = self.resources[at].is_full;
        let booked = if is_full { f64::INFINITY } else { self.resources[by].level * FIRST_GROWTH };
        let (in_crosses, in_crossed) = (self.resources[by].crosses.len(), self.resources[at].crossed.len());
        let made = Crossing { by, at, demand: 0.0, count: 0, booked, in_crosses, in_crossed };
        let id = self.free_crossings.pop().unwrap_or(self.crossings.len());
        if id == self.crossings.len() {
            self.crossings.push(made);
        } else {
            self.crossings[id] = made;
        }
        self.crossing_ids.insert((by, at), id);
        self.resources[by].crosses.push(id);
        self.resources[by].limit = self.resources[by].limit.min(booked);
        self.resources[at].crossed.push(id);
        if is_full {
            self.is_at_full(id, true);
        }
        id
    }

    fn end_crossing(&mut self, id: CrossingId) {
        let Crossing { by, at, .. } = self.crossings[id];
        if self.crossings[id].in_crosses < self.resources[by].crosses_full {
            self.is_at_full(id, false);
        }
        let Crossing { in_crosses, in_crossed, .. } = self.crossings[id];
        self.resources[by].crosses.swap_remove(in_crosses);
        if let Some(moved) = self.resources[by].crosses.get(in_crosses) {
            self.crossings[*moved].in_crosses = in_crosses;
        }
        self.resources[at].crossed.swap_remove(in_crossed);
        if let Some(moved) = self.resources[at].crossed.get(in_crossed) {
            self.crossings[*moved].in_crossed = in_crossed;
        }
        self.crossing_ids.remove(&(by, at));
        self.free_crossings.push(id);
    }

    /// Moves a crossing within the list `crosses` of its bottleneck, where crossings at saturated resources come first.
    /// `is_full` is the new state of the crossed resource.
    fn is_at_full(&mut self, id: CrossingId, is_full: bool) {
        let Crossing { by, in_crosses, .. } = self.crossings[id];
        let one = &mut self.resources[by];
        one.crosses_full = if is_full { one.crosses_full + 1 } else { one.crosses_full - 1 };
        let place = if is_full { one.crosses_full - 1 } else { one.crosses_full };
        one.crosses.swap(in_crosses, place);
        for place in [in_crosses, place] {
            self.crossings[one.crosses[place]].in_crosses = place;
        }
    }

    /// Returns the current usage of a resource by flows with another bottleneck, as a sum over all crossings.
    pub(super) fn taken(&self, resource: ResourceId) -> f64 {
        let one = &self.resources[resource];
        let of = |id: &CrossingId| self.crossings[*id].demand * self.resources[self.crossings[*id].by].level;
        one.bound_use + one.crossed.iter().map(of).sum::<f64>()
    }

    /// Reserves free capacity of an unsaturated resource for the flows that cross it. Returns false if the flows
    /// already exceed the capacity.
    pub(super) fn books(&mut self, resource: ResourceId) -> bool {
        let taken = self.taken(resource);
        let one = &self.resources[resource];
        if taken > one.units_per_s * ROUNDING {
            return false;
        }
        let of_levels = taken - one.bound_use;
        let room = BOOKED_PART * (one.units_per_s - taken).max(0.0);
        let growth = if of_levels > 0.0 { 1.0 + room / of_levels } else { 1.0 };
        let mut booked_use = one.bound_use;
        for place in 0..self.resources[resource].crossed.len() {
            let crossing = &mut self.crossings[self.resources[resource].crossed[place]];
            let by = &mut self.resources[crossing.by];
            crossing.booked = by.level * growth;
            by.limit = by.limit.min(crossing.booked);
            booked_use += crossing.demand * crossing.booked;
        }
        self.resources[resource].booked_use = booked_use;
        true
    }

    /// Marks a resource as saturated at this level, before its first flow is attached.
    pub(super) fn fills_up(&mut self, resource: ResourceId, level: f64) {
        let taken = self.taken(resource);
        let now_s = self.now_s;
        let one = &mut self.resources[resource];
        one.advance(now_s);
        (one.is_full, one.level, one.other_use, one.changes) = (true, level, taken, 0);
        (one.own_bound, one.limit, one.floor) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
        for place in 0..self.resources[resource].crossed.len() {
            let id = self.resources[resource].crossed[place];
            self.crossings[id].booked = f64::INFINITY;
            self.is_at_full(id, true);
        }
    }

    /// Marks a resource as unsaturated after its last flow left.
    fn empties(&mut self, resource: ResourceId) {
        let one = &mut self.resources[resource];
        (one.is_full, one.level, one.own_demand) = (false, f64::INFINITY, 0.0);
        one.keys.clear();
        self.due.set(resource, None);
        let mut booked_use = self.resources[resource].bound_use;
        for place in 0..self.resources[resource].crossed.len() {
            let id = self.resources[resource].crossed[place];
            self.is_at_full(id, false);
            let crossing = &mut self.crossings[id];
            let by = &mut self.resources[crossing.by];
            crossing.booked = by.level;
            by.limit = by.limit.min(by.level);
            booked_use += crossing.demand * crossing.booked;
        }
        self.resources[resource].booked_use = booked_use;
        self.touch(resource);
    }
}
