//! Seeded random numbers, and platforms, for the tests of this crate.
#![allow(dead_code)]

use branchline_simulation::{Block, Disk, Job, Link, Nodes, Plan, Platform, Reading, Server, Storage};

/// SplitMix64 (Steele, Lea and Flood, 2014).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.next() % count as u64) as usize
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns and prints the seed of a test: `BRANCHLINE_SEED`, or this default.
pub fn seed(usual: u64) -> u64 {
    let seed = std::env::var("BRANCHLINE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    println!("BRANCHLINE_SEED={seed}");
    seed
}

pub fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1e-9)
}

/// A storage with a disk, a server and a link.
pub fn platform(disk: f64, link: f64, round_trip_s: f64, nodes: usize, cores: usize) -> Platform {
    Platform {
        disks: vec![Disk { bytes_per_s: disk, operations_per_s: None }],
        servers: vec![Server { bytes_per_s: 1e12 }],
        links: vec![Link { bytes_per_s: link, round_trip_s }],
        caches: Vec::new(),
        storages: vec![storage()],
        nodes: vec![Nodes { count: nodes, cores, slots: cores, bytes_per_s: 1e12, speed: 1.0 }],
    }
}

pub fn storage() -> Storage {
    Storage { disk: Some(0), server: Some(0), links: vec![0], window_bytes: None, streams: 1, cache: None }
}

pub fn block(bytes: f64, cpu_s: f64) -> Block {
    Block { storage: 0, bytes, operations: 1.0, round_trips: 1.0, cpu_s }
}

pub fn plan(blocks: Vec<Block>, blocks_ahead: usize) -> Plan {
    let reading = Reading { requests_in_flight: 1, bytes_in_flight: 1e18, blocks_ahead, threads: 1.0 };
    Plan { blocks, reading }
}

pub fn job(plan: usize) -> Job {
    Job { plan, node: None, start_s: 0.0, prepare_s: 0.0, cpu_factor: 1.0, data: 0 }
}

/// Resources of a farm: links shared by many flows, disks with limited operations, and slow network interfaces of
/// nodes. Some resources have the same capacity, so that some levels are equal too.
#[derive(Debug)]
pub struct Farm {
    pub units_per_s: Vec<f64>,
    links: usize,
    disks: usize,
    bounds: Vec<f64>,
}

impl Farm {
    /// The rate of the link is about the total rate of all interfaces, so that either may be the bottleneck.
    pub fn random(chance: &mut Chance) -> Self {
        let (links, disks, nodes) = (1 + chance.below(2), chance.below(6), 1 + chance.below(40));
        let card = chance.between(1.0, 20.0);
        let spread = if chance.below(2) == 0 { 0.0 } else { 0.5 };
        let load = [0.3, 0.7, 0.95, 1.0, 1.05, 1.5][chance.below(6)];
        let mut units_per_s = vec![card * nodes as f64 * load; links];
        let disk = card * nodes as f64 / disks.max(1) as f64 * [0.5, 1.0, 2.0][chance.below(3)];
        for _ in 0..disks {
            units_per_s.push(disk * chance.between(1.0 - spread, 1.0 + spread));
            units_per_s.push(disk * chance.between(0.2, 3.0));
        }
        units_per_s.extend((0..nodes).map(|_| card * chance.between(1.0 - spread, 1.0 + spread)));
        let bounds = (0..chance.below(3)).map(|_| card * chance.between(0.05, 2.0)).collect();
        Self { units_per_s, links, disks, bounds }
    }

    /// A random route with a bound.
    pub fn flow(&self, chance: &mut Chance) -> (Vec<(usize, f64)>, f64) {
        let first_card = self.links + 2 * self.disks;
        let card = first_card + chance.below(self.units_per_s.len() - first_card);
        let mut route = vec![(card, 1.0)];
        if chance.below(8) > 0 {
            route.push((chance.below(self.links), 1.0));
        }
        if self.disks > 0 && chance.below(8) > 0 {
            let disk = self.links + 2 * chance.below(self.disks);
            route.push((disk, 1.0));
            if chance.below(2) == 0 {
                route.push((disk + 1, chance.between(0.1, 2.0)));
            }
        }
        let is_bounded = !self.bounds.is_empty() && chance.below(2) == 0;
        let bound = if is_bounded { self.bounds[chance.below(self.bounds.len())] } else { f64::INFINITY };
        (route, bound)
    }
}
