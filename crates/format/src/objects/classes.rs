//! The classes of a file, each compiled when it is first met, and what branches make of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::streamer::ClassInfos;

use super::block::fuse;
use super::compile::{Compiler, Piece};
use super::form::{Form, Slot};
use super::program::{Object, Step};

/// The member that an object has in place of its own if these cannot be read: why not.
const UNREAD: &str = "@unread";

/// The classes that a file describes, as programs.
#[derive(Debug)]
pub struct Classes {
    pub(crate) infos: Arc<ClassInfos>,
    /// Whether the members of TObject and the names of ROOT's containers are wanted too, and pointers may lead to
    /// objects that cannot be read.
    pub(crate) are_whole: bool,
    compiled: Mutex<HashMap<String, Arc<ClassProgram>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Classes {
    /// Nothing compiled yet.
    pub fn new(infos: Arc<ClassInfos>) -> Self {
        Self { infos, are_whole: false, compiled: Mutex::default() }
    }

    /// The same for objects that are wanted with all that is stored of them.
    pub fn whole(infos: Arc<ClassInfos>) -> Self {
        Self { infos, are_whole: true, compiled: Mutex::default() }
    }

    /// What the file says of its classes.
    pub fn infos(&self) -> &ClassInfos {
        &self.infos
    }

    /// The program of objects of a class that is streamed as such, as behind a pointer.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<ClassProgram>> {
        if let Some(known) = lock(&self.compiled).get(name) {
            return Ok(Arc::clone(known));
        }
        // Not under the lock: a class may be compiled twice, which does no harm.
        let mut compiler = Compiler::new(self);
        let program = match compiler.streamed(name) {
            Ok(piece) => ClassProgram::new(name, piece, compiler.has_offsets),
            Err(error) if self.are_whole => ClassProgram::unread(name, error.to_string()),
            Err(error) => return Err(error),
        };
        let program = Arc::new(program);
        lock(&self.compiled).insert(name.to_string(), Arc::clone(&program));
        Ok(program)
    }
}

/// The steps that read the objects of a class, and the columns that they fill.
#[derive(Debug)]
pub(crate) struct ClassProgram {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// The slots, and which of them have offsets.
    pub(crate) has_offsets: Vec<bool>,
    /// Why its objects cannot be read, of which a text is kept then.
    pub(crate) unread: Option<String>,
    source: Vec<Step>,
    fused: Mutex<Arc<Vec<Step>>>,
    /// Bytes and offsets in each slot after the last basket: the next one will need about as much room.
    room: Mutex<Vec<(usize, usize)>>,
}

/// So many times the bytes of a basket are made room for at most, whatever the one before needed.
const ROOM_FACTOR_MAX: usize = 16;

impl ClassProgram {
    pub(crate) fn new(name: &str, piece: Piece, has_offsets: Vec<bool>) -> Self {
        let fused = Mutex::new(Arc::new(fuse(&piece.steps)));
        Self {
            name: name.to_string(),
            form: piece.form,
            has_offsets,
            unread: None,
            source: piece.steps,
            fused,
            room: Mutex::default(),
        }
    }

    /// A class whose objects cannot be read.
    pub(crate) fn unread(name: &str, reason: String) -> Self {
        let members = vec![(UNREAD.to_string(), Form::Text { slot: 0 })];
        let form = Form::Record { class_name: Some(name.to_string()), members };
        let program = Self::new(name, Piece { steps: Vec::new(), form }, vec![true]);
        Self { unread: Some(reason), ..program }
    }

    /// The steps as they were compiled.
    pub(crate) fn source(&self) -> &[Step] {
        &self.source
    }

    /// The steps as they are to be taken.
    pub(crate) fn steps(&self) -> Arc<Vec<Step>> {
        Arc::clone(&lock(&self.fused))
    }

    /// Fuses the steps anew, as it is known better now what headers are like.
    pub(crate) fn fuse_again(&self) {
        *lock(&self.fused) = Arc::new(fuse(&self.source));
    }

    /// Makes room in the slots for what data of so many bytes will probably need.
    pub(crate) fn make_room(&self, slots: &mut [Slot], data_bytes: usize) {
        let room = lock(&self.room);
        let sum: usize = room.iter().map(|(bytes, offsets)| bytes + offsets * size_of::<i64>()).sum();
        if sum <= data_bytes.saturating_mul(ROOM_FACTOR_MAX) {
            for (slot, (bytes, offsets)) in slots.iter_mut().zip(room.iter()) {
                slot.bytes.reserve(*bytes);
                slot.offsets.reserve(*offsets);
            }
        }
    }

    /// Takes note of how much room was needed.
    pub(crate) fn remember(&self, slots: &[Slot]) {
        let used = slots.iter().take(self.has_offsets.len()).map(|slot| (slot.bytes.len(), slot.offsets.len()));
        *lock(&self.room) = used.collect();
    }

    /// Whether objects of it may refer to places in the buffer that they are in.
    pub(crate) fn may_refer(&self) -> bool {
        self.source.iter().any(Step::may_refer)
    }

    /// The class, if its objects may be streamed memberwise.
    pub(crate) fn memberwise(&self) -> Option<&Object> {
        match self.source.as_slice() {
            [Step::Object(object)] => Some(object),
            _ => None,
        }
    }
}
