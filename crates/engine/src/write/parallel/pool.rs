//! A thread pool that returns results in the order in which the jobs were submitted.

use std::collections::{BTreeMap, VecDeque};
use std::thread::{self, JoinHandle};

use branchline_format::write::BasketTools;
use branchline_trace::panics::{guarded, Panic};
use crossbeam_channel::{unbounded, Receiver, Sender};

/// A pool with one thread per core. The threads end when the pool is dropped.
pub(crate) struct Pool<J, R> {
    jobs: Option<Sender<(u64, J)>>,
    queue: Receiver<(u64, J)>,
    done: Receiver<(u64, Result<R, Panic>)>,
    threads: Vec<JoinHandle<()>>,
    /// Results that arrived before the results of earlier jobs.
    early: BTreeMap<u64, Result<R, Panic>>,
    /// Number of jobs submitted so far; `given_back` is the number of results returned, and `costs` are the costs of
    /// the jobs in between.
    handed_over: u64,
    given_back: u64,
    costs: VecDeque<u64>,
    cost: u64,
}

impl<J: Send + 'static, R: Send + 'static> Pool<J, R> {
    /// Creates a pool whose threads run `work` for each job.
    pub(crate) fn new(work: impl Fn(&mut BasketTools, J) -> R + Copy + Send + 'static) -> Self {
        let (jobs, queue) = unbounded::<(u64, J)>();
        let (results, done) = unbounded();
        let count = thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let (queue, results) = (queue.clone(), results.clone());
            thread::spawn(move || {
                let mut tools = BasketTools::new();
                for (number, job) in queue {
                    let result = guarded(|| work(&mut tools, job));
                    if result.is_err() {
                        tools = BasketTools::new();
                    }
                    if results.send((number, result)).is_err() {
                        return; // the pool was dropped
                    }
                }
            })
        };
        let threads = (0..count).map(start).collect();
        let (early, costs) = Default::default();
        Self { jobs: Some(jobs), queue, done, threads, early, handed_over: 0, given_back: 0, costs, cost: 0 }
    }

    /// Submits a job. `cost` is the memory that the job takes.
    pub(crate) fn hand_over(&mut self, job: J, cost: u64) {
        self.hand_over_all(vec![(job, cost)]);
    }

    /// Submits jobs. The largest jobs start first, so that no thread is busy with a long last job while the other
    /// threads are idle.
    pub(crate) fn hand_over_all(&mut self, some: Vec<(J, u64)>) {
        let Some(jobs) = &self.jobs else { return };
        let mut numbered = Vec::with_capacity(some.len());
        for (job, cost) in some {
            numbered.push((cost, self.handed_over, job));
            self.handed_over += 1;
            self.costs.push_back(cost);
            self.cost += cost;
        }
        numbered.sort_by_key(|(cost, _, _)| std::cmp::Reverse(*cost));
        for (_, number, job) in numbered {
            // Sending cannot fail while the pool holds a receiver.
            drop(jobs.send((number, job)));
        }
    }

    /// Total cost of the jobs whose results have not been returned.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// Waits for the result of the oldest job. Returns None if all results have been returned.
    pub(crate) fn next(&mut self) -> Option<Result<R, Panic>> {
        if self.given_back == self.handed_over {
            return None;
        }
        let result = loop {
            if let Some(result) = self.early.remove(&self.given_back) {
                break result;
            }
            match self.done.recv() {
                Ok((number, result)) => drop(self.early.insert(number, result)),
                Err(_) => break Err(Panic::unseen()),
            }
        };
        self.given_back += 1;
        self.cost -= self.costs.pop_front().unwrap_or(0);
        Some(result)
    }
}

impl<J, R> Drop for Pool<J, R> {
    fn drop(&mut self) {
        // Drop the queue, so that jobs that have not started are dropped.
        self.jobs = None;
        while self.queue.try_recv().is_ok() {}
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}
