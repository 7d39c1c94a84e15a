//! Simulated jobs for Python: converts between the dataclasses of `branchline.lab.simulation` and the simulation crate.

use std::sync::{Mutex, MutexGuard, PoisonError};

use branchline_simulation as simulated;
use pyo3::prelude::*;

/// Returns the exception for invalid input.
fn refused(py: Python<'_>, error: &simulated::Error) -> PyErr {
    let made = py
        .import("branchline.errors")
        .and_then(|errors| errors.getattr("OptionError"))
        .and_then(|class| class.call1((error.to_string(),)));
    made.map_or_else(|error| error, PyErr::from_value)
}

#[derive(FromPyObject)]
struct Disk {
    bytes_per_s: f64,
    operations_per_s: Option<f64>,
}

#[derive(FromPyObject)]
struct Server {
    bytes_per_s: f64,
}

#[derive(FromPyObject)]
struct Link {
    bytes_per_s: f64,
    round_trip_s: f64,
}

#[derive(FromPyObject)]
struct Way {
    disk: Option<usize>,
    server: Option<usize>,
    links: Vec<usize>,
    window_bytes: Option<f64>,
    streams: usize,
    cache: Option<usize>,
}

#[derive(FromPyObject)]
struct Cache {
    size_bytes: f64,
    way: Way,
}

#[derive(FromPyObject)]
struct Nodes {
    count: usize,
    cores: usize,
    slots: usize,
    bytes_per_s: f64,
    speed: f64,
}

/// The platform of `branchline.lab.simulation`, with names replaced by indices.
#[derive(FromPyObject)]
pub struct Platform {
    disks: Vec<Disk>,
    servers: Vec<Server>,
    links: Vec<Link>,
    caches: Vec<Cache>,
    storages: Vec<Way>,
    nodes: Vec<Nodes>,
}

impl From<Way> for simulated::Storage {
    fn from(way: Way) -> Self {
        let Way { disk, server, links, window_bytes, streams, cache } = way;
        Self { disk, server, links, window_bytes, streams, cache }
    }
}

impl From<Platform> for simulated::Platform {
    fn from(given: Platform) -> Self {
        let disk = |one: Disk| simulated::Disk { bytes_per_s: one.bytes_per_s, operations_per_s: one.operations_per_s };
        let link = |one: Link| simulated::Link { bytes_per_s: one.bytes_per_s, round_trip_s: one.round_trip_s };
        let nodes = |one: Nodes| simulated::Nodes {
            count: one.count,
            cores: one.cores,
            slots: one.slots,
            bytes_per_s: one.bytes_per_s,
            speed: one.speed,
        };
        let cache = |one: Cache| simulated::Cache { size_bytes: one.size_bytes, storage: one.way.into() };
        let server = |one: Server| simulated::Server { bytes_per_s: one.bytes_per_s };
        Self {
            disks: given.disks.into_iter().map(disk).collect(),
            servers: given.servers.into_iter().map(server).collect(),
            links: given.links.into_iter().map(link).collect(),
            caches: given.caches.into_iter().map(cache).collect(),
            storages: given.storages.into_iter().map(Into::into).collect(),
            nodes: given.nodes.into_iter().map(nodes).collect(),
        }
    }
}

#[derive(FromPyObject)]
struct Block {
    storage: usize,
    bytes: f64,
    operations: f64,
    round_trips: f64,
    cpu_s: f64,
}

#[derive(FromPyObject)]
struct Reading {
    requests_in_flight: usize,
    bytes_in_flight: f64,
    blocks_ahead: usize,
    threads: f64,
}

/// The plan of `branchline.lab.simulation`, with names replaced by indices.
#[derive(FromPyObject)]
pub struct Plan {
    blocks: Vec<Block>,
    reading: Reading,
}

impl From<Plan> for simulated::Plan {
    fn from(given: Plan) -> Self {
        let block = |one: Block| simulated::Block {
            storage: one.storage,
            bytes: one.bytes,
            operations: one.operations,
            round_trips: one.round_trips,
            cpu_s: one.cpu_s,
        };
        let Reading { requests_in_flight, bytes_in_flight, blocks_ahead, threads } = given.reading;
        let reading = simulated::Reading { requests_in_flight, bytes_in_flight, blocks_ahead, threads };
        Self { blocks: given.blocks.into_iter().map(block).collect(), reading }
    }
}

/// A job of `branchline.lab.simulation`.
#[derive(FromPyObject)]
pub struct Job {
    plan: usize,
    node: Option<usize>,
    start_s: f64,
    prepare_s: f64,
    cpu_factor: f64,
    data: u64,
}

impl From<Job> for simulated::Job {
    fn from(given: Job) -> Self {
        let Job { plan, node, start_s, prepare_s, cpu_factor, data } = given;
        Self { plan, node, start_s, prepare_s, cpu_factor, data }
    }
}

/// A finished job.
#[pyclass(frozen, get_all)]
pub struct JobDone {
    job: usize,
    node: usize,
    start_s: f64,
    begin_s: f64,
    end_s: f64,
    read_bytes: f64,
    cached_bytes: f64,
    cpu_s: f64,
    computing_s: f64,
}

impl From<simulated::JobDone> for JobDone {
    fn from(done: simulated::JobDone) -> Self {
        Self {
            job: done.job,
            node: done.node,
            start_s: done.start_s,
            begin_s: done.begin_s,
            end_s: done.end_s,
            read_bytes: done.read_bytes,
            cached_bytes: done.cached_bytes,
            cpu_s: done.cpu_s,
            computing_s: done.computing_s,
        }
    }
}

/// Usage of a resource.
#[pyclass(frozen, get_all)]
pub struct ResourceUse {
    kind: &'static str,
    number: usize,
    units_per_s: f64,
    moved: f64,
    limited_s: f64,
}

/// Totals over all jobs.
#[pyclass(frozen, get_all)]
pub struct SimulationTotals {
    round_trips_s: f64,
    transfers_s: f64,
    computing_s: f64,
    events_count: u64,
    levels_count: u64,
    moves_count: u64,
    fillings_count: u64,
}

/// A simulation of jobs on a platform, in virtual time.
#[pyclass(frozen)]
pub struct Simulation {
    simulation: Mutex<simulated::Simulation>,
}

impl Simulation {
    fn lock(&self) -> MutexGuard<'_, simulated::Simulation> {
        self.simulation.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Simulation {
    #[new]
    fn new(py: Python<'_>, platform: Platform) -> PyResult<Self> {
        let simulation = simulated::Simulation::new(platform.into()).map_err(|error| refused(py, &error))?;
        Ok(Self { simulation: Mutex::new(simulation) })
    }

    #[getter]
    fn now_s(&self) -> f64 {
        self.lock().now_s()
    }

    fn add_plan(&self, py: Python<'_>, plan: Plan) -> PyResult<usize> {
        self.lock().add_plan(plan.into()).map_err(|error| refused(py, &error))
    }

    fn submit(&self, py: Python<'_>, job: Job) -> PyResult<usize> {
        self.lock().submit(job.into()).map_err(|error| refused(py, &error))
    }

    fn cancel(&self, py: Python<'_>, job: usize) -> PyResult<()> {
        self.lock().cancel(job).map_err(|error| refused(py, &error))
    }

    fn next_done(&self, py: Python<'_>, until_s: f64) -> Option<JobDone> {
        py.detach(|| self.lock().next_done(until_s)).map(Into::into)
    }

    fn all_done(&self, py: Python<'_>) -> Vec<JobDone> {
        py.detach(|| {
            let mut simulation = self.lock();
            std::iter::from_fn(|| simulation.next_done(f64::INFINITY)).map(Into::into).collect()
        })
    }

    fn uses(&self) -> Vec<ResourceUse> {
        let of = |one: simulated::ResourceUse| ResourceUse {
            kind: one.kind.name(),
            number: one.number,
            units_per_s: one.units_per_s,
            moved: one.moved,
            limited_s: one.limited_s,
        };
        self.lock().uses().into_iter().map(of).collect()
    }

    fn totals(&self) -> SimulationTotals {
        let one = self.lock().totals();
        SimulationTotals {
            round_trips_s: one.round_trips_s,
            transfers_s: one.transfers_s,
            computing_s: one.computing_s,
            events_count: one.events_count,
            levels_count: one.effort.levels_count,
            moves_count: one.effort.moves_count,
            fillings_count: one.effort.fillings_count,
        }
    }
}
