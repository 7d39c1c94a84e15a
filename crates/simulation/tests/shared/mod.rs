//! Chance by a seed, and platforms, for the tests of this crate.
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

/// The seed of a test: `BRANCHLINE_SEED` or this one. It is printed.
pub fn seed(usual: u64) -> u64 {
    let seed = std::env::var("BRANCHLINE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    println!("BRANCHLINE_SEED={seed}");
    seed
}

pub fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-9 * expected.abs().max(1e-9)
}

/// One storage behind a disk, a server and a link.
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
