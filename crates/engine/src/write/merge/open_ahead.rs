//! Opens inputs in advance, several at a time, while earlier inputs are being copied.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{guarded, Result};
use crate::limits;
use crate::write::merge::input::{Input, Wanted};
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::products::tree_input::unions::Unions;
use crate::write::request::MergeRequest;

/// A queue of inputs that are opened in any order, and consumed in the order of the request.
pub(crate) struct OpenAhead<'a> {
    request: &'a MergeRequest,
    state: Mutex<State>,
    changed: Condvar,
    known: KnownTrees,
    /// Whether any inputs are remote, so that each request takes a round trip.
    is_far: bool,
}

#[derive(Default)]
struct State {
    /// Index of the next input to open.
    next: usize,
    /// Index of the next input to consume.
    taken: usize,
    opened: HashMap<usize, Opened>,
    /// Memory of the inputs that are open but not yet consumed, in bytes.
    held_bytes: u64,
    /// Largest memory of any input so far, as an estimate for the following inputs, in bytes.
    largest_bytes: u64,
    /// Number of inputs that are being opened.
    opening_count: u64,
    is_stopped: bool,
}

/// An opened input, or the error from opening it, with the memory that the input takes.
struct Opened {
    input: Result<Input>,
    memory_bytes: u64,
}

/// Stops opening inputs when dropped.
struct Stopping<'a, 'o>(&'a OpenAhead<'o>);

impl Drop for Stopping<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

impl<'a> OpenAhead<'a> {
    /// Creates a queue of unopened inputs. Each tree is extended by all branches of its union.
    pub(crate) fn new(request: &'a MergeRequest, unions: Unions) -> Self {
        let is_far = request.inputs.iter().any(|path| path.contains("://"));
        // A single input needs no filling, because no other input follows. The baskets are only copied in another
        // order, unless entries are rewritten into new baskets.
        let is_alone = request.inputs.len() == 1 && !request.has_new_baskets();
        let uneven = if is_alone { UnevenBranches::Unchanged } else { UnevenBranches::Filled };
        let known = KnownTrees::with_unions(uneven, unions);
        Self { request, state: Mutex::default(), changed: Condvar::new(), known, is_far }
    }

    /// Passes all inputs to `consume`, which may stop the iteration with an error.
    pub(crate) fn run(&self, mut consume: impl FnMut(&str, Result<Input>) -> Result<()>) -> Result<()> {
        let threads = if self.is_far { limits::FAR_INPUTS_AHEAD } else { limits::NEAR_INPUTS_OPENED };
        std::thread::scope(|scope| {
            // This stops the threads even if the consumer panics or a thread cannot start. Otherwise the scope would
            // wait for its threads forever.
            let _stopping = Stopping(self);
            for _ in 0..threads.min(self.request.inputs.len()) {
                scope.spawn(|| self.open_all());
            }
            self.request.inputs.iter().enumerate().try_for_each(|(index, path)| consume(path, self.take(index)))
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one input after another, waiting until there is room for each.
    fn open_all(&self) {
        while let Some(index) = self.next() {
            let path = &self.request.inputs[index];
            let MergeRequest { tree, branches, access, .. } = self.request;
            let wanted = Wanted { tree: tree.as_deref(), branches, access };
            let open = || {
                let mut input = Input::open(path, wanted, &self.known)?;
                input.identify();
                Ok(input)
            };
            let input = guarded(path, open);
            let memory_bytes = input.as_ref().map_or(0, Input::memory_bytes);
            let mut state = self.lock();
            state.opening_count -= 1;
            state.held_bytes += memory_bytes;
            state.largest_bytes = state.largest_bytes.max(memory_bytes);
            state.opened.insert(index, Opened { input, memory_bytes });
            self.changed.notify_all();
        }
    }

    /// Waits until another input may be opened, and returns its index. Returns None if all inputs have been opened.
    fn next(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.is_stopped || state.next >= self.request.inputs.len() {
                return None;
            }
            let expected = (state.opening_count + 1).saturating_mul(state.largest_bytes);
            let is_room = state.held_bytes.saturating_add(expected) <= self.request.limits.memory_bytes / 2;
            let most = if self.is_far { limits::FAR_INPUTS_AHEAD } else { limits::NEAR_INPUTS_AHEAD };
            let is_near = state.next - state.taken <= most;
            // The input that the merge is waiting for is always opened. Other inputs are only opened once the memory of
            // the first input is known.
            let is_first_known =
                state.next == 0 || state.largest_bytes > 0 || !state.opened.is_empty() || state.taken > 0;
            if state.next == state.taken || (is_room && is_near && is_first_known) {
                state.next += 1;
                state.opening_count += 1;
                return Some(state.next - 1);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until an input is open, and takes it out of the queue.
    fn take(&self, index: usize) -> Result<Input> {
        let mut state = self.lock();
        loop {
            if let Some(Opened { input, memory_bytes }) = state.opened.remove(&index) {
                state.held_bytes -= memory_bytes;
                state.taken = index + 1;
                self.changed.notify_all();
                return input;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
