//! Jobs that share disks, servers, caches, links and worker nodes, in virtual time. No I/O, no threads, no chance: the
//! same input gives the same figures.
//!
//! [`fluid`] shares rates among flows, and knows nothing about jobs. [`Simulation`] has jobs read and compute the
//! blocks of their plans on a [`Platform`].

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
