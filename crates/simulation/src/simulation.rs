//! Event-driven simulation of jobs on a platform.

use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};

use crate::cached::Cached;
use crate::error::{Error, Result};
use crate::fluid::{Effort, FlowId, Fluid};
use crate::job_run::JobRun;
use crate::plan::{Job, Plan};
use crate::platform::{Kind, Layout, Path, Platform};
use crate::queue::{Later, Time};

/// An event at a known time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A job is submitted.
    Comes { job: usize },
    /// A job makes its first request.
    Begins { job: usize },
    /// The first byte of a block arrives.
    FirstByte { job: usize, block: usize, is_cached: bool },
}

/// Purpose of a flow.
#[derive(Debug, Clone, Copy)]
struct Owner {
    job: usize,
    block: usize,
    work: Work,
    begin_s: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Read,
    Compute,
}

/// A finished job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobDone {
    /// Number returned by `submit`.
    pub job: usize,
    /// Index of the job's node.
    pub node: usize,
    /// Submission time.
    pub start_s: f64,
    /// Time when the job got a slot.
    pub begin_s: f64,
    /// End time.
    pub end_s: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes read from a cache, included in `read_bytes`.
    pub cached_bytes: f64,
    /// Core seconds used.
    pub cpu_s: f64,
    /// Seconds spent computing. The job spent the rest of its time waiting for bytes.
    pub computing_s: f64,
}

/// Usage of a resource.
#[derive(Debug, Clone, PartialEq)]
pub struct ResourceUse {
    /// Kind of the resource.
    pub kind: Kind,
    /// Index of the disk, server, link or node type to which the resource belongs.
    pub number: usize,
    /// Capacity per second.
    pub units_per_s: f64,
    /// Used amount of the resource, in bytes, operations or core seconds.
    pub moved: f64,
    /// Sum over all requests and computations of the seconds during which this resource was their bottleneck.
    pub limited_s: f64,
}

/// Totals over all jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    /// Total time from requests to their first bytes, in seconds.
    pub round_trips_s: f64,
    /// Total time from the first to the last bytes of requests, in seconds.
    pub transfers_s: f64,
    /// Total computing time of all jobs in seconds.
    pub computing_s: f64,
    /// Number of events.
    pub events_count: u64,
    /// Work spent on computing rates of flows.
    pub effort: Effort,
}

/// Simulation of jobs on a platform.
#[derive(Debug)]
pub struct Simulation {
    platform: Platform,
    layout: Layout,
    fluid: Fluid,
    plans: Vec<Plan>,
    jobs: Vec<JobRun>,
    owners: Vec<Option<Owner>>,
    events: BinaryHeap<Later<(Time, u64, Event)>>,
    events_number: u64,
    waiting: VecDeque<usize>,
    /// Number of jobs and index of each node with a free slot.
    free: BTreeSet<(usize, usize)>,
    jobs_at: Vec<usize>,
    caches: Vec<Cached>,
    paths: HashMap<(usize, bool, usize), Path>,
    done: VecDeque<JobDone>,
    now_s: f64,
    totals: Totals,
}

impl Simulation {
    /// Creates a simulation without jobs.
    pub fn new(platform: Platform) -> Result<Self> {
        Self::on(platform, Fluid::new())
    }

    /// Like [`Simulation::new`], but recomputes the rates of all connected flows at every change. For comparison in
    /// tests.
    pub fn filling_always(platform: Platform) -> Result<Self> {
        Self::on(platform, Fluid::filling_always())
    }

    fn on(platform: Platform, mut fluid: Fluid) -> Result<Self> {
        let layout = platform.build(&mut fluid)?;
        let free = (0..layout.nodes.len()).map(|node| (0, node)).collect();
        Ok(Self {
            jobs_at: vec![0; layout.nodes.len()],
            caches: platform.caches.iter().map(|one| Cached::new(one.size_bytes)).collect(),
            platform,
            layout,
            fluid,
            plans: Vec::new(),
            jobs: Vec::new(),
            owners: Vec::new(),
            events: BinaryHeap::new(),
            events_number: 0,
            waiting: VecDeque::new(),
            free,
            paths: HashMap::new(),
            done: VecDeque::new(),
            now_s: 0.0,
            totals: Totals::default(),
        })
    }

    /// Returns the current simulated time.
    pub fn now_s(&self) -> f64 {
        self.now_s
    }

    /// Adds a plan for jobs and returns the index of the plan.
    pub fn add_plan(&mut self, plan: Plan) -> Result<usize> {
        plan.check(self.platform.storages.len())?;
        self.plans.push(plan);
        Ok(self.plans.len() - 1)
    }

    /// Submits a job at its start time, or now if the start time has passed. Returns the number of the job.
    pub fn submit(&mut self, job: Job) -> Result<usize> {
        job.check(self.plans.len(), self.layout.nodes.len())?;
        let (number, at_s) = (self.jobs.len(), job.start_s.max(self.now_s));
        self.jobs.push(JobRun::new(Job { start_s: at_s, ..job }));
        self.at(at_s, Event::Comes { job: number });
        Ok(number)
    }

    /// Aborts a job.
    pub fn cancel(&mut self, job: usize) -> Result<()> {
        let run = self.jobs.get_mut(job).ok_or_else(|| Error(format!("there is no job {job}")))?;
        let was_running = std::mem::take(&mut run.is_running);
        for flow in std::mem::take(&mut run.flows) {
            self.fluid.stop(self.now_s, flow);
            self.owners[flow] = None;
        }
        self.waiting.retain(|one| *one != job);
        if was_running {
            self.frees(job);
        }
        Ok(())
    }

    /// Advances to the end of the next job and returns the finished job. If no job ends by `until_s`, advances to that
    /// time, unless it is infinite, and returns None.
    pub fn next_done(&mut self, until_s: f64) -> Option<JobDone> {
        while self.done.is_empty() {
            let timed_s = self.events.peek().map_or(f64::INFINITY, |Later((Time(at_s), _, _))| *at_s);
            let flow = self.fluid.next_end();
            let next_s = flow.map_or(timed_s, |(at_s, _)| at_s.min(timed_s));
            if next_s > until_s || next_s.is_infinite() {
                if until_s.is_finite() {
                    self.now_s = self.now_s.max(until_s);
                }
                return None;
            }
            self.now_s = self.now_s.max(next_s);
            self.totals.events_count += 1;
            match flow {
                Some((at_s, id)) if at_s <= timed_s => self.flow_ends(id),
                _ => self.happens(),
            }
        }
        self.done.pop_front()
    }

    /// Returns the usage of each resource until now.
    pub fn uses(&self) -> Vec<ResourceUse> {
        let used = |(id, (kind, number, units_per_s)): (usize, &(Kind, usize, f64))| ResourceUse {
            kind: *kind,
            number: *number,
            units_per_s: *units_per_s,
            moved: self.fluid.moved(id),
            limited_s: self.fluid.limited_flow_s(id),
        };
        self.layout.resources.iter().enumerate().map(used).collect()
    }

    /// Returns the totals over all jobs until now.
    pub fn totals(&self) -> Totals {
        Totals { effort: self.fluid.effort(), ..self.totals.clone() }
    }

    fn at(&mut self, at_s: f64, event: Event) {
        self.events_number += 1;
        self.events.push(Later((Time(at_s), self.events_number, event)));
    }

    fn happens(&mut self) {
        let Some(Later((_, _, event))) = self.events.pop() else { return };
        match event {
            Event::Comes { job } => {
                self.waiting.push_back(job);
                self.give_slots();
            }
            Event::Begins { job } => self.goes_on(job),
            Event::FirstByte { job, block, is_cached } => {
                if self.jobs[job].is_running {
                    self.transfer(job, block, is_cached);
                }
            }
        }
    }

    /// Assigns free slots to jobs in submission order. A job that waits for a particular node does not block other
    /// jobs.
    fn give_slots(&mut self) {
        let mut place = 0;
        while place < self.waiting.len() && !self.free.is_empty() {
            let job = self.waiting[place];
            let node = match self.jobs[job].job.node {
                Some(node) => (self.jobs_at[node] < self.layout.nodes[node].slots).then_some(node),
                None => self.free.first().map(|(_, node)| *node),
            };
            let Some(node) = node else {
                place += 1;
                continue;
            };
            self.waiting.remove(place);
            self.count_jobs(node, 1);
            let run = &mut self.jobs[job];
            (run.node, run.begin_s, run.is_running) = (node, self.now_s, true);
            let at_s = self.now_s + run.job.prepare_s;
            self.at(at_s, Event::Begins { job });
        }
    }

    fn count_jobs(&mut self, node: usize, change: isize) {
        let before = self.jobs_at[node];
        let after = before.saturating_add_signed(change);
        self.free.remove(&(before, node));
        self.jobs_at[node] = after;
        if after < self.layout.nodes[node].slots {
            self.free.insert((after, node));
        }
    }

    fn frees(&mut self, job: usize) {
        self.count_jobs(self.jobs[job].node, -1);
        self.give_slots();
    }

    /// Starts all requests and computations of a job that are possible now.
    fn goes_on(&mut self, job: usize) {
        if !self.jobs[job].is_running {
            return;
        }
        let number = self.jobs[job].job.plan;
        if let Some(block) = self.jobs[job].compute() {
            let node = &self.layout.nodes[self.jobs[job].node];
            let plan = &self.plans[number];
            let cpu_s = plan.blocks[block].cpu_s * self.jobs[job].job.cpu_factor / node.speed;
            let flow = self.fluid.start(self.now_s, cpu_s, &[(node.cores, 1.0)], plan.reading.threads);
            self.jobs[job].cpu_s += cpu_s;
            self.own(flow, Owner { job, block, work: Work::Compute, begin_s: self.now_s });
        }
        while let Some(block) = self.jobs[job].request(&self.plans[number]) {
            let is_cached = self.is_cached(job, block);
            let trips = self.plans[number].blocks[block].round_trips;
            let wait_s = trips * self.path(job, block, is_cached).round_trip_s;
            self.totals.round_trips_s += wait_s;
            if wait_s > 0.0 {
                self.at(self.now_s + wait_s, Event::FirstByte { job, block, is_cached });
            } else {
                self.transfer(job, block, is_cached);
            }
        }
    }

    fn is_cached(&mut self, job: usize, block: usize) -> bool {
        let run = &mut self.jobs[job];
        let one = &self.plans[run.job.plan].blocks[block];
        let Some(cache) = self.platform.storages[one.storage].cache else { return false };
        let is_there = self.caches[cache].has((run.job.plan, block, run.job.data));
        if is_there {
            run.cached_bytes += one.bytes;
        }
        is_there
    }

    fn path(&mut self, job: usize, block: usize, is_cached: bool) -> &Path {
        let run = &self.jobs[job];
        let number = self.plans[run.job.plan].blocks[block].storage;
        let Self { paths, layout, platform, .. } = self;
        paths.entry((number, is_cached, run.node)).or_insert_with(|| {
            let storage = &platform.storages[number];
            let cache = storage.cache.filter(|_| is_cached);
            layout.path(platform, cache.map_or(storage, |cache| &platform.caches[cache].storage), run.node)
        })
    }

    /// Starts the transfer of a block.
    fn transfer(&mut self, job: usize, block: usize, is_cached: bool) {
        let one = &self.plans[self.jobs[job].job.plan].blocks[block];
        let (bytes, operations, now_s) = (one.bytes, one.operations, self.now_s);
        let path = self.path(job, block, is_cached);
        let mut route = Vec::with_capacity(path.bytes.len() + 1);
        if bytes > 0.0 {
            route.extend(path.bytes.iter().map(|id| (*id, 1.0)));
            route.extend(path.operations.filter(|_| operations > 0.0).map(|id| (id, operations / bytes)));
        }
        let bound = path.bound;
        let flow = self.fluid.start(now_s, bytes, &route, bound);
        self.own(flow, Owner { job, block, work: Work::Read, begin_s: now_s });
    }

    fn own(&mut self, flow: FlowId, owner: Owner) {
        if flow >= self.owners.len() {
            self.owners.resize(flow + 1, None);
        }
        self.owners[flow] = Some(owner);
        self.jobs[owner.job].flows.push(flow);
    }

    fn flow_ends(&mut self, flow: FlowId) {
        self.fluid.stop(self.now_s, flow);
        let Some(Owner { job, block, work, begin_s }) = self.owners[flow].take() else { return };
        let run = &mut self.jobs[job];
        run.flows.retain(|one| *one != flow);
        let plan = &self.plans[run.job.plan];
        match work {
            Work::Read => {
                run.came(plan, block);
                self.totals.transfers_s += self.now_s - begin_s;
                let one = &plan.blocks[block];
                if let Some(cache) = self.platform.storages[one.storage].cache {
                    self.caches[cache].take((run.job.plan, block, run.job.data), one.bytes);
                }
            }
            Work::Compute => {
                run.computed();
                run.computing_s += self.now_s - begin_s;
                self.totals.computing_s += self.now_s - begin_s;
                if run.is_done(plan) {
                    self.ends(job);
                    return;
                }
            }
        }
        self.goes_on(job);
    }

    fn ends(&mut self, job: usize) {
        let run = &mut self.jobs[job];
        (run.is_running, run.end_s) = (false, self.now_s);
        self.done.push_back(JobDone {
            job,
            node: run.node,
            start_s: run.job.start_s,
            begin_s: run.begin_s,
            end_s: run.end_s,
            read_bytes: run.read_bytes,
            cached_bytes: run.cached_bytes,
            cpu_s: run.cpu_s,
            computing_s: run.computing_s,
        });
        self.frees(job);
    }
}
