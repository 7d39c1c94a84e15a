//! Programs: the compiled steps that read classes and branches. `compile` creates programs, `run` executes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::classes::streamer::ClassInfos;
use crate::error::FormatError;

use super::form::Form;
use super::steps::{Object, Step};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The classes of a file, compiled on demand.
#[derive(Debug)]
pub struct Classes {
    pub(crate) infos: Arc<ClassInfos>,
    /// Whether to read objects with all their members, including the members of TObject and the names of ROOT's
    /// containers. If set, pointers to unreadable objects are accepted.
    pub(crate) are_whole: bool,
    compiled: Mutex<HashMap<String, Arc<ClassProgram>>>,
}

impl Classes {
    /// Create an empty set of class programs.
    pub fn new(infos: Arc<ClassInfos>) -> Self {
        Self { infos, are_whole: false, compiled: Mutex::default() }
    }

    /// Create an empty set of class programs that read objects with all their members.
    pub fn whole(infos: Arc<ClassInfos>) -> Self {
        Self { infos, are_whole: true, compiled: Mutex::default() }
    }

    /// The class descriptions of the file.
    pub fn infos(&self) -> &ClassInfos {
        &self.infos
    }

    /// The program of a class; None if the class is not compiled yet.
    pub(crate) fn compiled(&self, name: &str) -> Option<Arc<ClassProgram>> {
        lock(&self.compiled).get(name).map(Arc::clone)
    }

    /// Store the program of a class.
    pub(crate) fn keep(&self, program: &Arc<ClassProgram>) {
        lock(&self.compiled).insert(program.name.clone(), Arc::clone(program));
    }
}

/// The steps that read objects of a class, and the columns that they fill.
#[derive(Debug)]
pub(crate) struct ClassProgram {
    pub(crate) name: String,
    pub(crate) form: Form,
    /// For each slot, whether it has offsets.
    pub(crate) has_offsets: Vec<bool>,
    /// Reason why objects of the class cannot be read. Records of such objects contain the reason as a string.
    pub(crate) unread: Option<FormatError>,
    source: Vec<Step>,
    fused: Mutex<Arc<Vec<Step>>>,
    /// Numbers of bytes and offsets that each slot needed for the last basket. Used to reserve memory for the next
    /// basket.
    room: Mutex<Vec<(usize, usize)>>,
}

impl ClassProgram {
    /// Create a program from steps that are not fused yet.
    pub(crate) fn of_steps(name: &str, source: Vec<Step>, form: Form, has_offsets: Vec<bool>) -> Self {
        let (fused, room) = (Mutex::default(), Mutex::default());
        Self { name: name.to_string(), form, has_offsets, unread: None, source, fused, room }
    }

    /// The steps before adjacent steps are fused.
    pub(crate) fn source(&self) -> &[Step] {
        &self.source
    }

    /// The fused steps. These are the steps that are executed.
    pub(crate) fn steps(&self) -> Arc<Vec<Step>> {
        Arc::clone(&lock(&self.fused))
    }

    /// Replace the fused steps.
    pub(crate) fn set_steps(&self, fused: Vec<Step>) {
        *lock(&self.fused) = Arc::new(fused);
    }

    /// Number of bytes and number of offsets that each slot needed for the last basket.
    pub(crate) fn room(&self) -> MutexGuard<'_, Vec<(usize, usize)>> {
        lock(&self.room)
    }

    /// Whether objects may contain references to positions in their buffer.
    pub(crate) fn may_refer(&self) -> bool {
        self.source.iter().any(Step::may_refer)
    }

    /// The program's class, if objects of the class may be streamed memberwise.
    pub(crate) fn memberwise(&self) -> Option<&Object> {
        match self.source.as_slice() {
            [Step::Object(object)] => Some(object),
            _ => None,
        }
    }
}

/// The steps that read objects from a branch's entries or from a key's record.
#[derive(Debug, Clone)]
pub struct Program(Arc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) class: ClassProgram,
    pub(crate) classes: Arc<Classes>,
    /// Slot of the list's offsets, if an entry is a list of elements and not a single object.
    pub(crate) elements: Option<usize>,
    /// Index of the counter branch with the number of elements per entry.
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

    /// The steps that read an entry, if an entry is a single object; None for lists of elements.
    pub(crate) fn single_steps(&self) -> Option<&[Step]> {
        self.0.elements.is_none().then(|| self.0.class.source())
    }

    /// Name of the enumeration, if entries are fixed-size arrays of enumerations that ROOT may have omitted. If the
    /// entries are empty, only the element counts show whether the arrays were stored.
    pub fn unsure_array(&self) -> Option<&str> {
        match self.0.class.source() {
            [step] if self.0.elements.is_some() => step.unsure_array(),
            _ => None,
        }
    }

    /// C++ type name of an entry.
    pub fn type_name(&self) -> &str {
        &self.0.type_name
    }

    /// Index of the counter branch with the number of elements, needed if baskets have no entry offsets.
    pub fn count(&self) -> Option<usize> {
        self.0.count
    }

    /// Whether entries may contain references to positions in their basket.
    pub fn may_refer(&self) -> bool {
        self.0.class.may_refer()
    }
}
