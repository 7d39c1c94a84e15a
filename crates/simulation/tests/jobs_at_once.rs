//! Jobs on platforms: results follow known formulas, invariants hold, and both ways to compute rates give equal
//! results.
#![allow(clippy::unwrap_used)]

mod shared;

use branchline_simulation::{
    Block, Cache, Disk, Job, JobDone, Link, Nodes, Plan, Platform, Reading, Simulation, Storage,
};
use shared::{block, job, near, plan, platform, seed, storage, Chance};

fn run(mut simulation: Simulation, plans: Vec<Plan>, jobs: &[Job]) -> (Vec<JobDone>, Simulation) {
    plans.into_iter().for_each(|one| assert!(simulation.add_plan(one).is_ok()));
    jobs.iter().for_each(|one| assert!(simulation.submit(one.clone()).is_ok()));
    let done = std::iter::from_fn(|| simulation.next_done(f64::INFINITY)).collect();
    (done, simulation)
}

fn simulated(platform: Platform, plans: Vec<Plan>, jobs: &[Job]) -> Vec<JobDone> {
    let (done, _) = run(Simulation::new(platform).unwrap(), plans, jobs);
    assert_eq!(done.len(), jobs.len());
    done
}

fn makespan_s(done: &[JobDone]) -> f64 {
    done.iter().map(|one| one.end_s).fold(0.0, f64::max)
}

#[test]
fn equal_jobs_over_one_link_take_the_bytes_of_all_over_its_rate() {
    for count in [1, 3, 1000] {
        let plans = vec![plan(vec![block(2e6, 0.0); 5], 0)];
        let done = simulated(platform(1e12, 1e8, 0.0, count, 1), plans, &vec![job(0); count]);
        assert!(done.iter().all(|one| near(one.end_s, 1e7 * count as f64 / 1e8)));
    }
}

#[test]
fn a_stream_has_at_most_a_window_in_each_round_trip() {
    let window = Storage { window_bytes: Some(6.4e5), ..storage() };
    for (streams, rate) in [(1, 6.4e5 / 0.1), (4, 4.0 * 6.4e5 / 0.1)] {
        let mut way = platform(1e12, 1e9, 0.1, 1, 1);
        way.storages = vec![Storage { streams, ..window.clone() }];
        let done = simulated(way, vec![plan(vec![block(1e8, 0.0)], 0)], &[job(0)]);
        assert!(near(done[0].end_s, 0.1 + 1e8 / rate));
    }
}

#[test]
fn a_job_alone_reads_the_next_block_while_it_computes_one() {
    // Reading takes 1 s plus 0.5 s of round trip, computing 2 s: with read-ahead, only the first block delays the job.
    let blocks = vec![block(1e8, 2.0); 4];
    for (ahead, seconds) in [(0, 4.0 * 3.5), (1, 1.5 + 4.0 * 2.0)] {
        let done = simulated(platform(1e12, 1e8, 0.5, 1, 1), vec![plan(blocks.clone(), ahead)], &[job(0)]);
        assert!(near(done[0].end_s, seconds), "{} for {seconds}", done[0].end_s);
        assert!(near(done[0].computing_s, 8.0) && near(done[0].cpu_s, 8.0));
    }
}

#[test]
fn requests_in_flight_hide_round_trips() {
    // Eight blocks, each with 0.1 s of transfer and a round trip of 0.9 s: in sequence, and all in parallel.
    for (requests, seconds) in [(1, 8.0), (8, 0.9 + 0.8)] {
        let reading = Reading { requests_in_flight: requests, bytes_in_flight: 1e18, blocks_ahead: 8, threads: 1.0 };
        let plans = vec![Plan { blocks: vec![block(1e7, 0.0); 8], reading }];
        let done = simulated(platform(1e12, 1e8, 0.9, 1, 1), plans, &[job(0)]);
        assert!(near(done[0].end_s, seconds), "{} for {seconds}", done[0].end_s);
    }
}

#[test]
fn jobs_wait_for_slots_and_share_cores() {
    let mut farm = platform(1e12, 1e12, 0.0, 1, 2);
    farm.nodes[0].slots = 4;
    let done = simulated(farm, vec![plan(vec![block(1.0, 3.0)], 0)], &vec![job(0); 8]);
    // Four jobs at a time on two cores: 6 s each.
    assert!(near(makespan_s(&done), 12.0));
    assert!(done[4..].iter().all(|one| near(one.begin_s, 6.0)));
}

#[test]
fn a_cache_gives_what_another_job_has_read() {
    let mut cached = platform(1e7, 1e12, 0.0, 1, 1);
    cached.disks.push(Disk { bytes_per_s: 1e8, operations_per_s: None });
    let own = Storage { disk: Some(1), ..storage() };
    cached.caches = vec![Cache { size_bytes: 1e9, storage: own }];
    cached.storages[0].cache = Some(0);
    let jobs = [job(0), job(0), Job { data: 1, ..job(0) }];
    let done = simulated(cached, vec![plan(vec![block(1e8, 0.0)], 0)], &jobs);
    let spans: Vec<_> = done.iter().map(|one| one.end_s - one.begin_s).collect();
    assert!([10.0, 1.0, 10.0].iter().zip(spans).all(|(expected, span)| near(span, *expected)));
    assert_eq!(done.iter().map(|one| one.cached_bytes).collect::<Vec<_>>(), [0.0, 1e8, 0.0]);
}

#[test]
fn a_job_that_is_cancelled_gives_back_its_share_and_its_slot() {
    let mut simulation = Simulation::new(platform(1e12, 1e8, 0.0, 1, 2)).unwrap();
    simulation.add_plan(plan(vec![block(1e9, 0.0)], 0)).unwrap();
    for number in 0..3 {
        assert_eq!(simulation.submit(job(0)), Ok(number));
    }
    assert_eq!(simulation.next_done(4.0), None);
    simulation.cancel(0).unwrap();
    // Two jobs share the link until 4 s; then the third gets the slot, and two share it again.
    let ends: Vec<_> =
        std::iter::from_fn(|| simulation.next_done(f64::INFINITY)).map(|one| (one.job, one.end_s)).collect();
    assert!(near(ends[0].1, 20.0) && near(ends[1].1, 22.0), "{ends:?}");
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let mut wrong = platform(1e8, 1e8, 0.0, 1, 1);
    wrong.links[0].bytes_per_s = 0.0;
    assert!(Simulation::new(wrong).unwrap_err().0.contains("the rate of link 0 must be above 0, got 0"));
    let mut simulation = Simulation::new(platform(1e8, 1e8, 0.0, 1, 1)).unwrap();
    assert!(simulation.add_plan(plan(Vec::new(), 0)).unwrap_err().0.contains("no blocks"));
    assert!(simulation.submit(job(0)).unwrap_err().0.contains("plan 0"));
}

/// A platform with several resources of each kind, and jobs that read from all its storages. Rounding decides the order
/// of jobs that end at the same time. So that this order does not change the results, each job has its own node, and
/// each cache holds everything or nothing.
fn random_case(chance: &mut Chance) -> (Platform, Vec<Plan>, Vec<Job>) {
    let mut way = platform(chance.between(5e7, 5e8), chance.between(5e7, 1e9), chance.between(0.0, 0.05), 3, 4);
    way.disks.push(Disk { bytes_per_s: chance.between(5e7, 5e8), operations_per_s: Some(chance.between(20.0, 500.0)) });
    way.links.push(Link { bytes_per_s: chance.between(5e7, 1e9), round_trip_s: 0.0 });
    let window_bytes = (chance.below(2) == 0).then(|| chance.between(1e5, 4e6));
    way.storages.push(Storage { disk: Some(1), links: vec![0, 1], window_bytes, streams: 2, ..storage() });
    way.caches = vec![Cache {
        size_bytes: if chance.below(2) == 0 { 1e12 } else { 0.0 },
        storage: Storage { disk: Some(1), links: vec![1], ..storage() },
    }];
    way.storages.push(Storage { cache: Some(0), ..storage() });
    way.nodes[0].bytes_per_s = chance.between(5e7, 5e8);
    way.nodes[0].slots = 40;
    way.nodes.push(Nodes { count: 2, cores: 2, slots: 40, bytes_per_s: 2e8, speed: 1.5 });
    let plans = (0..3).map(|_| random_plan(chance)).collect();
    let jobs = (0..40)
        .map(|_| Job {
            start_s: if chance.below(2) == 0 { 0.0 } else { chance.between(0.0, 5.0) },
            cpu_factor: chance.between(0.5, 2.0),
            node: Some(chance.below(5)),
            data: chance.below(5) as u64,
            ..job(chance.below(3))
        })
        .collect();
    (way, plans, jobs)
}

fn random_plan(chance: &mut Chance) -> Plan {
    let one = |chance: &mut Chance| {
        let mut one = block(chance.between(0.0, 3e7), chance.between(0.0, 0.5));
        (one.storage, one.operations) = (chance.below(3), 1.0 + chance.below(20) as f64);
        one
    };
    let blocks = (0..1 + chance.below(12)).map(|_| one(chance)).collect();
    let reading = Reading {
        requests_in_flight: 1 + chance.below(4),
        bytes_in_flight: chance.between(1e6, 1e8),
        blocks_ahead: chance.below(4),
        threads: 1.0 + chance.below(2) as f64,
    };
    Plan { blocks, reading }
}

#[test]
fn both_ways_to_compute_rates_give_the_same_times_and_all_bytes_arrive() {
    let mut chance = Chance(seed(2026));
    for case in 0..60 {
        let (way, plans, jobs) = random_case(&mut chance);
        let (done, simulation) = run(Simulation::new(way.clone()).unwrap(), plans.clone(), &jobs);
        let (mut all, _) = run(Simulation::filling_always(way).unwrap(), plans.clone(), &jobs);
        let mut sorted = done.clone();
        sorted.sort_by_key(|one| one.job);
        all.sort_by_key(|one| one.job);
        for (one, other) in sorted.iter().zip(&all) {
            assert!((one.end_s - other.end_s).abs() < 1e-6 * other.end_s, "case {case}: {one:?} {other:?}");
            let bytes: f64 = plans[jobs[one.job].plan].blocks.iter().map(|block| block.bytes).sum();
            assert!((one.read_bytes - bytes).abs() < 1.0);
        }
        let moved = |kind: &str| -> f64 {
            simulation.uses().iter().filter(|one| one.kind.name() == kind).map(|one| one.moved).sum()
        };
        let (read, cpu): (f64, f64) =
            done.iter().fold((0.0, 0.0), |(read, cpu), one| (read + one.read_bytes, cpu + one.cpu_s));
        for kind in ["disk", "server", "network"] {
            assert!((moved(kind) - read).abs() < 1e-6 * read, "case {case}: {kind} gave {}, {read} came", moved(kind));
        }
        assert!((moved("cores") - cpu).abs() < 1e-6 * cpu);
        assert!(done.len() == 40);
    }
}

#[test]
fn another_job_at_one_shared_resource_makes_nothing_end_sooner() {
    let mut chance = Chance(seed(11));
    for case in 0..100 {
        let plans: Vec<_> = (0..3)
            .map(|_| plan((0..1 + chance.below(8)).map(|_| block(chance.between(1e5, 1e7), 0.0)).collect(), 1))
            .collect();
        let mut jobs = Vec::new();
        let mut before_s = 0.0;
        for _ in 0..12 {
            jobs.push(Job { start_s: chance.between(0.0, 0.3), ..job(chance.below(3)) });
            let after_s = makespan_s(&simulated(platform(1e12, 1e7, 0.0, 12, 1), plans.clone(), &jobs));
            assert!(after_s >= before_s - 1e-9, "case {case}: {} jobs took {before_s}, then {after_s}", jobs.len());
            before_s = after_s;
        }
    }
}

/// Like `random_case`, but with slow network interfaces, disks, and a link with about the total rate of the interfaces.
fn narrow_case(chance: &mut Chance) -> (Platform, Vec<Plan>, Vec<Job>) {
    let (_, mut plans, mut jobs) = random_case(chance);
    let (nodes, card) = (1 + chance.below(8), chance.between(5e6, 5e7));
    let load = [0.8, 0.95, 1.0, 1.05][chance.below(4)];
    let mut way = platform(1e12, nodes as f64 * card * load, chance.between(0.0, 0.02), nodes, 4);
    way.disks.extend((0..2).map(|_| Disk { bytes_per_s: nodes as f64 * card * 0.5, operations_per_s: None }));
    way.storages.extend((1..3).map(|disk| Storage { disk: Some(disk), ..storage() }));
    (way.nodes[0].bytes_per_s, way.nodes[0].slots) = (card, 40);
    plans.iter_mut().flat_map(|plan| &mut plan.blocks).for_each(|block| block.bytes += 1.0);
    jobs.iter_mut().for_each(|job| job.node = Some(chance.below(nodes)));
    (way, plans, jobs)
}

#[test]
fn narrow_cards_and_a_link_that_is_nearly_full_give_the_times_of_filling_from_nothing() {
    let mut chance = Chance(seed(2029));
    for case in 0..40 {
        let (way, plans, jobs) = narrow_case(&mut chance);
        let (mut done, simulation) = run(Simulation::new(way.clone()).unwrap(), plans.clone(), &jobs);
        let (mut all, filled) = run(Simulation::filling_always(way).unwrap(), plans, &jobs);
        done.sort_by_key(|one| one.job);
        all.sort_by_key(|one| one.job);
        assert_eq!((done.len(), all.len()), (40, 40));
        for (one, other) in done.iter().zip(&all) {
            assert!((one.end_s - other.end_s).abs() < 1e-6 * other.end_s, "case {case}: {one:?} {other:?}");
        }
        // The bottlenecks agree too, except that a request with two equal bottlenecks may be counted for either.
        let limited = |of: &Simulation| -> f64 {
            of.uses().iter().filter(|one| one.kind.name() != "cores").map(|one| one.limited_s).sum()
        };
        let (found, expected) = (limited(&simulation), limited(&filled));
        assert!((found - expected).abs() < 1e-6 * expected, "case {case}: {found} s for {expected}");
    }
}

/// A thousand jobs with 31 blocks each on several disks, on nodes with 16 cores. All nodes share one link.
fn a_thousand(card: f64, link: f64, disks: usize, disk: f64) -> Simulation {
    let mut chance = Chance(1);
    let mut way = platform(disk, link, 0.01, 63, 16);
    way.disks = vec![Disk { bytes_per_s: disk, operations_per_s: None }; disks];
    way.storages = (0..disks).map(|disk| Storage { disk: Some(disk), ..storage() }).collect();
    way.nodes[0].bytes_per_s = card;
    let plans = (0..64).map(|_| {
        let of =
            |_| Block { storage: chance.below(disks), ..block(chance.between(1e6, 9e6), chance.between(0.1, 1.0)) };
        plan((0..31).map(of).collect(), 1)
    });
    let plans = plans.collect();
    let jobs: Vec<_> = (0..1000).map(|number| Job { start_s: number as f64 * 0.001, ..job(number % 64) }).collect();
    let (done, simulation) = run(Simulation::new(way).unwrap(), plans, &jobs);
    assert_eq!(done.len(), 1000);
    simulation
}

#[test]
fn a_thousand_jobs_cost_few_steps_whatever_holds_them_back() {
    // A flow that starts or ends changes some levels, and moves flows of some nodes between two bottlenecks, the link
    // and the network interface. If disks are bottlenecks too, a change of a disk's level changes the levels of the
    // interfaces.
    let cards = 63.0 * 12e6;
    for (name, card, link, disks, disk, levels_max, moves_max) in [
        ("wide cards", 1.25e9, 5e9, 1, 1e12, 1, 1),
        ("a link that is the bottleneck of most flows", 12e6, 0.7 * cards, 1, 1e12, 1, 1),
        ("a link that is nearly full", 12e6, 0.9 * cards, 1, 1e12, 1, 1),
        ("a link with the total rate of all interfaces", 12e6, cards, 1, 1e12, 4, 25),
        ("a link with spare capacity", 12e6, 1.05 * cards, 1, 1e12, 1, 1),
        ("disks that are the bottleneck of some flows", 12e6, 0.9 * cards, 20, 5e7, 8, 5),
    ] {
        let totals = a_thousand(card, link, disks, disk).totals();
        let effort = totals.effort;
        println!("{name}: {totals:?}");
        assert!(totals.events_count > 90_000 && effort.fillings_count <= 10, "{name}: {totals:?}");
        assert!(effort.levels_count <= levels_max * totals.events_count, "{name}: {totals:?}");
        assert!(effort.moves_count <= moves_max * totals.events_count, "{name}: {totals:?}");
    }
}
