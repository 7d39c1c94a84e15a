//! Opens inputs ahead of the merge, several at a time, while others are copied.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::error::{guarded, Result};
use crate::limits;
use crate::write::merge::input::{Input, Wanted};
use crate::write::products::tree_input::input::{KnownTrees, UnevenBranches};
use crate::write::products::tree_input::unions::Unions;
use crate::write::request::MergeRequest;

/// Inputs that are opened, in any order, and taken in theirs.
pub(crate) struct OpenAhead<'a> {
    request: &'a MergeRequest,
    state: Mutex<State>,
    changed: Condvar,
    known: KnownTrees,
    /// Whether each request to a server has to be waited for.
    is_far: bool,
}

#[derive(Default)]
struct State {
    /// The input that is opened next.
    next: usize,
    /// The input that is taken next.
    taken: usize,
    opened: HashMap<usize, Opened>,
    /// Memory of those that are opened and not taken.
    held_bytes: u64,
    /// The largest so far: another may take as much.
    largest_bytes: u64,
    /// Of those that are being opened.
    opening_count: u64,
    is_stopped: bool,
}

/// An input that was opened, or the reason why it could not be, and the memory that it takes.
struct Opened {
    input: Result<Input>,
    memory_bytes: u64,
}

/// Ends the opening of inputs when it is dropped.
struct Stopping<'a, 'o>(&'a OpenAhead<'o>);

impl Drop for Stopping<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().is_stopped = true;
        self.0.changed.notify_all();
    }
}

impl<'a> OpenAhead<'a> {
    /// None is opened yet. Trees get all branches of these unions.
    pub(crate) fn new(request: &'a MergeRequest, unions: Unions) -> Self {
        let is_far = request.inputs.iter().any(|path| path.contains("://"));
        // A single input is only put into another order, unless its entries are put into new baskets.
        let is_alone = request.inputs.len() == 1 && !request.has_new_baskets();
        let uneven = if is_alone { UnevenBranches::Unchanged } else { UnevenBranches::Filled };
        let known = KnownTrees::with_unions(uneven, unions);
        Self { request, state: Mutex::default(), changed: Condvar::new(), known, is_far }
    }

    /// Gives all inputs to a consumer, which ends it with an error.
    pub(crate) fn run(&self, mut consume: impl FnMut(&str, Result<Input>) -> Result<()>) -> Result<()> {
        let threads = if self.is_far { limits::FAR_INPUTS_AHEAD } else { limits::NEAR_INPUTS_OPENED };
        std::thread::scope(|scope| {
            // Also when the consumer panics or a thread cannot begin: the scope waits for its threads.
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

    /// Opens one input after the other as long as there is room.
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

    /// The input that a thread is to open now; none when all are.
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
            // The input that the merge waits for is always opened. The memory of the first is not known before.
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

    /// Waits for an input.
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
