//! Updates the levels affected by a change, one resource after the other, until all levels are right.
//!
//! The levels are right, and all flows have their max-min fair rates, when no resource exceeds its capacity, no flow
//! exceeds its bound, and no flow passes a saturated resource at a higher rate than the resource's level. A resource
//! that violates these conditions becomes the bottleneck of further flows, the fastest first, until it satisfies the
//! conditions. This changes the levels of the former bottlenecks, which are then updated in the same way. Each resource
//! needs only its own totals. Network switches find fair rates in the same way, by exchanging their levels (Charny,
//! Clark and Jain, ICC 1995).

use std::collections::BinaryHeap;

use super::parts::{Attached, Crossing, FlowId, Resource, ResourceId};
use super::{Fluid, ROUNDING};
use crate::queue::{Later, Time};

/// Relative changes smaller than this are rounding errors; they are not propagated.
const SAME_LEVEL: f64 = 1e-14;
/// If a change needs more steps than this number plus two steps per flow, recomputing all levels is cheaper.
const STEPS_MIN: usize = 64;

/// Flows that pass a resource at a higher rate than its level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Faster {
    /// A flow at its own bound.
    Bounded(FlowId),
    /// All flows with this bottleneck.
    HeldBy(ResourceId),
}

impl Fluid {
    /// Marks a resource whose level must be recomputed.
    pub(super) fn touch(&mut self, resource: ResourceId) {
        let one = &mut self.resources[resource];
        if !one.is_touched {
            one.is_touched = true;
            // Recompute lower levels first, because they do not depend on higher levels. An unsaturated resource has
            // no level yet, and comes first because it may become saturated.
            let level = if one.is_full { one.level } else { 0.0 };
            self.touched.push(Later((Time(level), resource)));
        }
    }

    /// Recomputes the levels of all marked resources.
    pub(super) fn settle(&mut self) {
        if self.always_fills {
            if !self.touched.is_empty() {
                self.fill_connected();
            }
            return;
        }
        let usual = STEPS_MIN + 2 * (self.flows.len() - self.free.len());
        let mut steps_left = self.steps_max.unwrap_or(usual);
        while let Some(Later((_, resource))) = self.touched.peek().copied() {
            if steps_left == 0 {
                self.fill_connected();
                return;
            }
            self.touched.pop();
            self.levels += 1;
            steps_left -= 1;
            let moves_before = self.moves;
            self.find_level(resource);
            steps_left = steps_left.saturating_sub((self.moves - moves_before) as usize);
        }
    }

    /// Recomputes the level of a resource from its usage.
    fn find_level(&mut self, resource: ResourceId) {
        // The resource stays marked until the end: its own changes are handled here and must not mark it again.
        if !self.resources[resource].is_full {
            if self.books(resource) {
                self.resources[resource].is_touched = false;
                return;
            }
            let highest = self.highest_at(resource);
            self.fills_up(resource, highest);
        } else if self.resources[resource].changes > self.resources[resource].crossed.len() {
            let taken = self.taken(resource);
            let one = &mut self.resources[resource];
            (one.other_use, one.changes) = (taken, 0);
        }
        let now_s = self.now_s;
        self.resources[resource].advance(now_s);
        self.takes_faster(resource);
        self.frees_bounded(resource);
        self.resources[resource].is_touched = false;
        if self.resources[resource].is_full {
            let level = self.resources[resource].fair_level();
            self.set_level(resource, level);
        } else {
            self.touch(resource);
        }
    }

    /// Returns the highest rate at which flows with another bottleneck pass a resource.
    fn highest_at(&self, resource: ResourceId) -> f64 {
        let one = &self.resources[resource];
        let levels = one.crossed.iter().map(|id| self.resources[self.crossings[*id].by].level);
        levels.chain(self.bounded_at(resource).map(|flow| self.flows[flow].bound)).fold(0.0, f64::max)
    }

    /// Returns the flows through a resource that run at their own bound.
    fn bounded_at(&self, resource: ResourceId) -> impl Iterator<Item = FlowId> + '_ {
        let one = &self.resources[resource];
        let flows = if one.bound_count > 0 { one.flows.as_slice() } else { &[] };
        flows.iter().map(|(flow, _)| *flow).filter(|flow| self.flows[*flow].attached == Attached::Bound)
    }

    /// Makes a saturated resource the bottleneck of all flows that would exceed its level, the fastest first.
    fn takes_faster(&mut self, resource: ResourceId) {
        let is_right = |one: &Resource| one.fair_level() * ROUNDING >= one.floor;
        if is_right(&self.resources[resource]) {
            return;
        }
        self.resources[resource].floor = self.highest_at(resource);
        if is_right(&self.resources[resource]) {
            return;
        }
        let level = self.resources[resource].fair_level();
        let by_levels = self.resources[resource].crossed.iter().map(|id| {
            let by = self.crossings[*id].by;
            (Time(self.resources[by].level), Faster::HeldBy(by))
        });
        let bounded = self.bounded_at(resource).map(|flow| (Time(self.flows[flow].bound), Faster::Bounded(flow)));
        let mut faster: BinaryHeap<_> = by_levels.chain(bounded).filter(|(rate, _)| rate.0 > level).collect();
        let mut floor = level.max(0.0);
        while let Some((rate, what)) = faster.pop() {
            if self.resources[resource].fair_level() * ROUNDING >= rate.0 {
                floor = rate.0;
                break;
            }
            match what {
                Faster::Bounded(flow) => self.takes(resource, &[flow]),
                Faster::HeldBy(by) => {
                    let flows = self.held_at(by, resource);
                    self.takes(resource, &flows);
                }
            }
        }
        self.resources[resource].floor = floor;
    }

    /// Returns the flows with the bottleneck `by` that also pass the resource `at`.
    fn held_at(&self, by: ResourceId, at: ResourceId) -> Vec<FlowId> {
        let (of_by, of_at) = (&self.resources[by].flows, &self.resources[at].flows);
        let passes = |flow: FlowId| self.flows[flow].uses.iter().any(|one| one.resource == at);
        let flows = if of_by.len() < of_at.len() { of_by } else { of_at };
        let held = flows.iter().map(|(flow, _)| *flow);
        held.filter(|flow| self.flows[*flow].attached == Attached::Resource(by) && passes(*flow)).collect()
    }

    fn takes(&mut self, resource: ResourceId, flows: &[FlowId]) {
        self.moves += flows.len() as u64;
        flows.iter().for_each(|flow| self.move_to(*flow, Attached::Resource(resource)));
    }

    /// Moves flows whose own bound is below the level of this resource to their own bound.
    fn frees_bounded(&mut self, resource: ResourceId) {
        loop {
            let one = &self.resources[resource];
            let level = one.fair_level();
            if !one.is_full || level <= one.own_bound * ROUNDING {
                return;
            }
            let own = one.flows.iter().map(|(flow, _)| *flow);
            let own = own.filter(|flow| self.flows[*flow].attached == Attached::Resource(resource));
            let (below, others): (Vec<_>, Vec<_>) = own.partition(|flow| self.flows[*flow].bound < level);
            let own_bound = others.iter().map(|flow| self.flows[*flow].bound).fold(f64::INFINITY, f64::min);
            self.resources[resource].own_bound = own_bound;
            self.moves += below.len() as u64;
            below.iter().for_each(|flow| self.move_to(*flow, Attached::Bound));
        }
    }

    /// Sets the level of a resource and propagates it to the resources that its flows cross.
    pub(super) fn set_level(&mut self, resource: ResourceId, level: f64) {
        let one = &mut self.resources[resource];
        let change = level - one.level;
        one.level = level;
        let (is_new, exceeds) = (change.abs() > SAME_LEVEL * level, level > one.limit);
        for place in 0..self.resources[resource].crosses_full {
            let Crossing { at, demand, .. } = self.crossings[self.resources[resource].crosses[place]];
            let other = &mut self.resources[at];
            other.other_use += change * demand;
            other.changes += 1;
            other.floor = other.floor.max(level);
            if is_new {
                self.touch(at);
            }
        }
        if exceeds {
            self.asks_for_room(resource);
        }
        self.schedule(resource);
    }

    /// Marks the other resources of this resource's flows that have reserved too little capacity for its level.
    fn asks_for_room(&mut self, resource: ResourceId) {
        let one = &self.resources[resource];
        let (level, mut limit) = (one.level, f64::INFINITY);
        for place in one.crosses_full..one.crosses.len() {
            let Crossing { at, booked, .. } = self.crossings[self.resources[resource].crosses[place]];
            if booked < level {
                self.touch(at);
            } else {
                limit = limit.min(booked);
            }
        }
        self.resources[resource].limit = limit;
    }

    /// Schedules the end of the next flow with this bottleneck.
    pub(super) fn schedule(&mut self, resource: ResourceId) {
        let one = &mut self.resources[resource];
        let mut at = None;
        while let Some(Later(key)) = one.keys.peek().filter(|_| one.own_count > 0) {
            if self.flows[key.flow].stamp == key.stamp {
                at = Some(Time(one.since_s + (key.at.0 - one.progress).max(0.0) / one.level));
                break;
            }
            one.keys.pop();
        }
        self.due.set(resource, at);
    }
}
