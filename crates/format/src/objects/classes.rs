//! The classes of a file, each compiled when it is first met, and what branches make of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::Result;
use crate::streamer::ClassInfos;

use super::block::fuse;
use super::compile::{Compiler, Piece};
use super::form::Form;
use super::program::{Object, Step};

/// The classes that a file describes, as programs.
#[derive(Debug)]
pub struct Classes {
    pub(crate) infos: Arc<ClassInfos>,
    compiled: Mutex<HashMap<String, Arc<ClassProgram>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Classes {
    /// Nothing compiled yet.
    pub fn new(infos: Arc<ClassInfos>) -> Self {
        Self { infos, compiled: Mutex::default() }
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
        let piece = compiler.streamed(name)?;
        let program = Arc::new(ClassProgram::new(name, piece, compiler.has_offsets));
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
    source: Vec<Step>,
    fused: Mutex<Arc<Vec<Step>>>,
}

impl ClassProgram {
    pub(crate) fn new(name: &str, piece: Piece, has_offsets: Vec<bool>) -> Self {
        let fused = Mutex::new(Arc::new(fuse(&piece.steps)));
        Self { name: name.to_string(), form: piece.form, has_offsets, source: piece.steps, fused }
    }

    /// The steps as they are to be taken.
    pub(crate) fn steps(&self) -> Arc<Vec<Step>> {
        Arc::clone(&lock(&self.fused))
    }

    /// Fuses the steps anew, as it is known better now what headers are like.
    pub(crate) fn fuse_again(&self) {
        *lock(&self.fused) = Arc::new(fuse(&self.source));
    }

    /// The class, if its objects may be streamed memberwise.
    pub(crate) fn memberwise(&self) -> Option<&Object> {
        match self.source.as_slice() {
            [Step::Object(object)] => Some(object),
            _ => None,
        }
    }
}
