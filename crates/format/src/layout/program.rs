//! Programs: the steps that classes are compiled to, and those of branches. `compile` makes them, `run` executes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::classes::streamer::ClassInfos;
use crate::error::FormatError;

use super::form::Form;
use super::steps::{Object, Step};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The classes that a file describes, as programs.
#[derive(Debug)]
pub struct Classes {
    pub(crate) infos: Arc<ClassInfos>,
    /// Whether the members of TObject and the names of ROOT's containers are wanted too, and pointers may lead to
    /// objects that cannot be read.
    pub(crate) are_whole: bool,
    compiled: Mutex<HashMap<String, Arc<ClassProgram>>>,
}

impl Classes {
    /// Nothing compiled yet.
    pub fn new(infos: Arc<ClassInfos>) -> Self {
        Self { infos, are_whole: false, compiled: Mutex::default() }
    }

    /// Nothing compiled yet, for objects that are read with all their members.
    pub fn whole(infos: Arc<ClassInfos>) -> Self {
        Self { infos, are_whole: true, compiled: Mutex::default() }
    }

    /// The classes that the file describes.
    pub fn infos(&self) -> &ClassInfos {
        &self.infos
    }

    /// The program of a class that was compiled before.
    pub(crate) fn compiled(&self, name: &str) -> Option<Arc<ClassProgram>> {
        lock(&self.compiled).get(name).map(Arc::clone)
    }

    /// Keeps the program of a class.
    pub(crate) fn keep(&self, program: &Arc<ClassProgram>) {
        lock(&self.compiled).insert(program.name.clone(), Arc::clone(program));
    }
}

/// The steps that read the objects of a class, and the columns that they fill.
#[derive(Debug)]
pub(crate) struct ClassProgram {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// The slots, and which of them have offsets.
    pub(crate) has_offsets: Vec<bool>,
    /// Why its objects cannot be read; their records have this reason as a text.
    pub(crate) unread: Option<FormatError>,
    source: Vec<Step>,
    fused: Mutex<Arc<Vec<Step>>>,
    /// Bytes and offsets in each slot after the last basket, by which room is reserved for the next.
    room: Mutex<Vec<(usize, usize)>>,
}

impl ClassProgram {
    /// A program whose steps are not fused yet.
    pub(crate) fn of_steps(name: &str, source: Vec<Step>, form: Form, has_offsets: Vec<bool>) -> Self {
        let (fused, room) = (Mutex::default(), Mutex::default());
        Self { name: name.to_string(), form, has_offsets, unread: None, source, fused, room }
    }

    /// The steps as they were compiled.
    pub(crate) fn source(&self) -> &[Step] {
        &self.source
    }

    /// The fused steps, by which objects are read.
    pub(crate) fn steps(&self) -> Arc<Vec<Step>> {
        Arc::clone(&lock(&self.fused))
    }

    /// Replaces the fused steps.
    pub(crate) fn set_steps(&self, fused: Vec<Step>) {
        *lock(&self.fused) = Arc::new(fused);
    }

    /// Bytes and offsets that each slot needed for the last basket.
    pub(crate) fn room(&self) -> MutexGuard<'_, Vec<(usize, usize)>> {
        lock(&self.room)
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

/// How objects are read from the entries of a branch, or from the record of a key.
#[derive(Debug, Clone)]
pub struct Program(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) class: ClassProgram,
    pub(crate) classes: Arc<Classes>,
    /// The list of the elements of an entry, if an entry is not a single object.
    pub(crate) elements: Option<usize>,
    /// Index of the branch that says how many there are.
    pub(crate) count: Option<usize>,
    pub(crate) type_name: String,
}

impl PartialEq for Program {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Program {
    pub(crate) fn of_parts(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.0
    }

    /// The steps of an entry that is a single object; None if it is a list of elements.
    pub(crate) fn single_steps(&self) -> Option<&[Step]> {
        self.0.elements.is_none().then(|| self.0.class.source())
    }

    /// C++ type name of an entry.
    pub fn type_name(&self) -> &str {
        &self.0.type_name
    }

    /// Index of the branch with the numbers of elements, which are needed where baskets have no entry offsets.
    pub fn count(&self) -> Option<usize> {
        self.0.count
    }

    /// Whether entries may refer to places in their basket.
    pub fn may_refer(&self) -> bool {
        self.0.class.may_refer()
    }
}
