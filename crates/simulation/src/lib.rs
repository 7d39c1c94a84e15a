//! Simulates jobs that share disks, servers, caches, links and worker nodes, in virtual time, without I/O, threads or
//! randomness: the same input gives the same results.
//!
//! [`fluid`] distributes rates among flows and knows nothing about jobs. In a [`Simulation`], jobs read and compute the
//! blocks of their plans on a [`Platform`].
//!
//! ```
//! use branchline_simulation::{Block, Disk, Job, Nodes, Plan, Platform, Reading, Simulation, Storage};
//!
//! // A job reads 500 bytes from a disk of 100 bytes per second and computes for 3 seconds.
//! let storage = Storage { disk: Some(0), server: None, links: vec![], window_bytes: None, streams: 1, cache: None };
//! let mut simulation = Simulation::new(Platform {
//!     disks: vec![Disk { bytes_per_s: 100.0, operations_per_s: None }],
//!     storages: vec![storage],
//!     nodes: vec![Nodes { count: 1, cores: 1, slots: 1, bytes_per_s: 1e9, speed: 1.0 }],
//!     ..Platform::default()
//! })?;
//! let block = Block { storage: 0, bytes: 500.0, operations: 1.0, round_trips: 0.0, cpu_s: 3.0 };
//! let reading = Reading { requests_in_flight: 1, bytes_in_flight: 1e6, blocks_ahead: 0, threads: 1.0 };
//! let plan = simulation.add_plan(Plan { blocks: vec![block], reading })?;
//! simulation.submit(Job { plan, node: None, start_s: 0.0, prepare_s: 0.0, cpu_factor: 1.0, data: 0 })?;
//! let done = simulation.next_done(f64::INFINITY).unwrap();
//! assert!((done.end_s - 8.0).abs() < 1e-6);
//! # Ok::<(), branchline_simulation::Error>(())
//! ```

#![deny(unsafe_code)]

mod cached;
mod error;
pub mod fluid;
mod job_run;
mod plan;
mod platform;
mod queue;
mod simulation;

pub use error::{Error, Result};
pub use plan::{Block, Job, Plan, Reading};
pub use platform::{Cache, Disk, Kind, Link, Nodes, Platform, Server, Storage};
pub use simulation::{JobDone, ResourceUse, Simulation, Totals};
