//! Max-min fair rates of flows: small cases computed by hand, and random cases compared with a simple solver.

mod shared;

use branchline_simulation::fluid::Fluid;
use shared::{near, seed, Chance, Farm};

type Route = Vec<(usize, f64)>;

/// Computes the rates of all flows by progressive filling.
fn plain_rates(capacities: &[f64], flows: &[(Route, f64)]) -> Vec<f64> {
    let mut rates = vec![None; flows.len()];
    loop {
        let taken = |resource: usize, level: Option<f64>| -> f64 {
            let one = |((route, _), rate): (&(Route, f64), &Option<f64>)| {
                let weight: f64 = route.iter().filter(|(id, _)| *id == resource).map(|(_, weight)| weight).sum();
                match (rate, level) {
                    (Some(rate), None) => weight * rate,
                    (None, Some(level)) => weight * level,
                    _ => 0.0,
                }
            };
            flows.iter().zip(&rates).map(one).sum()
        };
        let level_of = |id: usize| match taken(id, Some(1.0)) {
            0.0 => f64::INFINITY,
            demand => ((capacities[id] - taken(id, None)) / demand).max(0.0),
        };
        let levels: Vec<f64> = (0..capacities.len()).map(level_of).collect();
        let open = || flows.iter().zip(&rates).filter(|(_, rate)| rate.is_none());
        let bound = open().map(|((_, bound), _)| *bound).fold(f64::INFINITY, f64::min);
        if open().next().is_none() {
            return rates.into_iter().flatten().collect();
        }
        let level = levels.iter().copied().fold(f64::INFINITY, f64::min).min(bound);
        let is_held = |(route, bound): &(Route, f64)| {
            *bound <= level * (1.0 + 1e-12) || route.iter().any(|(id, _)| levels[*id] <= level * (1.0 + 1e-12))
        };
        for (flow, rate) in flows.iter().zip(&mut rates) {
            if rate.is_none() && is_held(flow) {
                *rate = Some(level);
            }
        }
    }
}

fn random_flow(chance: &mut Chance, resources: usize) -> (Route, f64) {
    let mut route = Route::new();
    for _ in 0..=chance.below(3) {
        let id = chance.below(resources);
        if route.iter().all(|(other, _)| *other != id) {
            let weight = if chance.below(3) == 0 { chance.between(0.001, 3.0) } else { 1.0 };
            route.push((id, weight));
        }
    }
    let bound = if chance.below(3) == 0 { chance.between(0.5, 30.0) } else { f64::INFINITY };
    (route, bound)
}

#[test]
fn flows_of_one_resource_get_the_same() {
    let mut fluid = Fluid::new();
    let link = fluid.add_resource(12.0);
    let flows: Vec<_> = (0..3).map(|_| fluid.start(0.0, 100.0, &[(link, 1.0)], f64::INFINITY)).collect();
    assert!(flows.iter().all(|flow| near(fluid.rate(*flow), 4.0)));
    assert_eq!(fluid.stop(5.0, flows[0]), 80.0);
    assert!(near(fluid.rate(flows[1]), 6.0));
    assert_eq!(fluid.next_end().map(|(at_s, _)| (at_s * 1e6).round()), Some(18_333_333.0));
}

#[test]
fn what_one_cannot_take_goes_to_the_others() {
    // Two links of 10 and 4: a flow through both, two through the first and one through the second (Bertsekas and
    // Gallager's example with other numbers). The second link is saturated at 2, then the first at 4.
    let mut fluid = Fluid::new();
    let (wide, narrow) = (fluid.add_resource(10.0), fluid.add_resource(4.0));
    let routes: [&[_]; 4] = [&[(wide, 1.0), (narrow, 1.0)], &[(wide, 1.0)], &[(wide, 1.0)], &[(narrow, 1.0)]];
    let flows: Vec<_> = routes.iter().map(|route| fluid.start(0.0, 1e3, route, f64::INFINITY)).collect();
    let rates: Vec<_> = flows.iter().map(|flow| fluid.rate(*flow)).collect();
    assert!([2.0, 4.0, 4.0, 2.0].iter().zip(rates).all(|(expected, rate)| near(rate, *expected)));
}

#[test]
fn a_flow_takes_no_more_than_its_bound() {
    let mut fluid = Fluid::new();
    let disk = fluid.add_resource(10.0);
    let slow = fluid.start(0.0, 100.0, &[(disk, 1.0)], 1.0);
    let fast = fluid.start(0.0, 100.0, &[(disk, 1.0)], f64::INFINITY);
    assert!(near(fluid.rate(slow), 1.0) && near(fluid.rate(fast), 9.0));
}

#[test]
fn operations_and_bytes_of_a_disk_are_limits_both() {
    // 100 MB/s and 200 operations per second: blocks of 0.1 MB arrive at 20 MB/s, blocks of 1 MB at 100 MB/s.
    for (operations_per_byte, rate) in [(1e-5, 2e7), (1e-6, 1e8)] {
        let mut fluid = Fluid::new();
        let (bytes, operations) = (fluid.add_resource(1e8), fluid.add_resource(200.0));
        let route = [(bytes, 1.0), (operations, operations_per_byte)];
        let flow = fluid.start(0.0, 1e9, &route, f64::INFINITY);
        assert!(near(fluid.rate(flow), rate));
    }
}

#[test]
fn rates_are_those_of_a_plain_solver_whatever_begins_and_ends() {
    let mut chance = Chance(seed(17));
    for case in 0..300 {
        let capacities: Vec<f64> = (0..1 + chance.below(8)).map(|_| chance.between(5.0, 100.0)).collect();
        let mut fluid = Fluid::new();
        capacities.iter().for_each(|one| assert!(fluid.add_resource(*one) < capacities.len()));
        let (mut live, mut now_s) = (Vec::new(), 0.0);
        for step in 0..60 {
            if live.is_empty() || chance.below(5) < 3 {
                let flow = random_flow(&mut chance, capacities.len());
                let id = fluid.start(now_s, chance.between(1.0, 50.0), &flow.0, flow.1);
                live.push((id, flow));
            } else if let Some((at_s, id)) = fluid.next_end() {
                now_s = at_s;
                let left = fluid.stop(now_s, id);
                assert!(left < 1e-6, "case {case}, step {step}: {left} left of a flow that ends");
                live.retain(|(other, _)| *other != id);
            }
            let flows: Vec<_> = live.iter().map(|(_, flow)| flow.clone()).collect();
            for ((id, _), expected) in live.iter().zip(plain_rates(&capacities, &flows)) {
                let rate = fluid.rate(*id);
                assert!((rate - expected).abs() <= 1e-6 * expected, "case {case}, step {step}: {rate} for {expected}");
            }
        }
    }
}

#[test]
fn no_resource_that_somebody_waits_for_is_idle() {
    // Work conservation: each flow is at its bound, or a resource on its route is saturated.
    let mut chance = Chance(seed(4));
    for _ in 0..200 {
        let capacities: Vec<f64> = (0..6).map(|_| chance.between(5.0, 100.0)).collect();
        let mut fluid = Fluid::new();
        capacities.iter().for_each(|one| assert!(fluid.add_resource(*one) < 6));
        let flows: Vec<_> = (0..20).map(|_| random_flow(&mut chance, 6)).collect();
        let ids: Vec<_> = flows.iter().map(|(route, bound)| fluid.start(0.0, 1e6, route, *bound)).collect();
        let rates: Vec<_> = ids.iter().map(|id| fluid.rate(*id)).collect();
        let used = |resource: usize| -> f64 {
            let of = |(route, _): &(Route, f64)| -> f64 {
                route.iter().filter(|(id, _)| *id == resource).map(|(_, weight)| *weight).sum()
            };
            flows.iter().zip(&rates).map(|(flow, rate)| of(flow) * rate).sum()
        };
        let used: Vec<_> = (0..6).map(used).collect();
        assert!(used.iter().zip(&capacities).all(|(used, capacity)| *used <= capacity * (1.0 + 1e-9)));
        for ((route, bound), rate) in flows.iter().zip(&rates) {
            let is_full = |(id, _): &(usize, f64)| used[*id] >= capacities[*id] * (1.0 - 1e-9);
            assert!(near(*rate, *bound) || route.iter().any(is_full));
        }
    }
}

/// Flows that start and end on a farm of many nodes, simulated twice: with incremental levels and with progressive
/// filling.
struct Compared {
    fluid: Fluid,
    filled: Fluid,
    live: Vec<usize>,
    now_s: f64,
}

impl Compared {
    fn new(fluid: Fluid, farm: &Farm) -> Self {
        let mut made = Self { fluid, filled: Fluid::filling_always(), live: Vec::new(), now_s: 0.0 };
        for units_per_s in &farm.units_per_s {
            assert_eq!(made.fluid.add_resource(*units_per_s), made.filled.add_resource(*units_per_s));
        }
        made
    }

    fn begins(&mut self, chance: &mut Chance, farm: &Farm) {
        let (route, bound) = farm.flow(chance);
        let amount = chance.between(1.0, 50.0);
        let id = self.fluid.start(self.now_s, amount, &route, bound);
        assert_eq!(self.filled.start(self.now_s, amount, &route, bound), id);
        self.live.push(id);
    }

    /// Ends the flow that finishes next, or stops a random flow.
    fn ends(&mut self, chance: &mut Chance, case: &str) {
        let Some((at_s, mut id)) = self.fluid.next_end() else { return };
        let expected_s = self.filled.next_end().map_or(f64::NAN, |(at_s, _)| at_s);
        assert!((at_s - expected_s).abs() <= 1e-9 * expected_s, "{case}: an end at {at_s} for {expected_s}");
        self.now_s = at_s.max(expected_s);
        if chance.below(10) == 0 {
            id = self.live[chance.below(self.live.len())];
        }
        let (left, expected) = (self.fluid.stop(self.now_s, id), self.filled.stop(self.now_s, id));
        assert!((left - expected).abs() < 1e-6, "{case}: {left} left for {expected}");
        self.live.retain(|other| *other != id);
    }

    fn compare(&mut self, case: &str) {
        for id in &self.live {
            let (rate, expected) = (self.fluid.rate(*id), self.filled.rate(*id));
            assert!((rate - expected).abs() <= 1e-8 * expected, "{case}: flow {id} has {rate} for {expected}");
        }
    }
}

#[test]
fn rates_on_farms_are_those_of_filling_from_nothing() {
    let mut chance = Chance(seed(2027));
    for number in 0..120 {
        let farm = Farm::random(&mut chance);
        let case = format!("farm {number}, {farm:?}");
        let mut compared = Compared::new(Fluid::new(), &farm);
        let most = 10 + chance.below(150);
        for _ in 0..400 {
            // Sometimes several flows start or end at the same time.
            if compared.live.len() < most && chance.below(20) < 11 {
                compared.begins(&mut chance, &farm);
            } else {
                compared.ends(&mut chance, &case);
            }
            if chance.below(4) > 0 {
                compared.compare(&case);
            }
        }
        let effort = compared.fluid.effort();
        assert!(effort.fillings_count <= 4, "{case}: {effort:?}");
    }
}

#[test]
fn rates_are_right_after_those_that_were_computed_from_nothing() {
    // After a few steps, all connected rates are recomputed, and incremental updates continue with these rates.
    let mut chance = Chance(seed(2028));
    let (mut fillings, mut levels) = (0, 0);
    for number in 0..60 {
        let farm = Farm::random(&mut chance);
        let case = format!("farm {number}, {farm:?}");
        let mut compared = Compared::new(Fluid::filling_after(1 + chance.below(8)), &farm);
        for _ in 0..300 {
            if compared.live.len() < 40 && chance.below(20) < 11 {
                compared.begins(&mut chance, &farm);
            } else {
                compared.ends(&mut chance, &case);
            }
            compared.compare(&case);
        }
        let effort = compared.fluid.effort();
        (fillings, levels) = (fillings + effort.fillings_count, levels + effort.levels_count);
    }
    assert!(fillings > 1000 && levels > 10_000, "{fillings} fillings, {levels} levels");
}
