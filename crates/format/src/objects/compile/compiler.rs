//! The state of the compiler, and the functions that all its modules share.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{FormatError, Result};
use crate::layout::form::Form;
use crate::layout::program::Classes;
use crate::layout::steps::{
    flattened, Block, Collection, Counted, Counter, Header, HeaderKind, Object, Step, TextLength, Version,
};
use crate::numbers::number::Number;
use crate::numbers::scalar::Scalar;

use super::piece::Piece;

/// Maximum number of members of all classes of a branch. Only malicious files exceed this limit.
const MEMBERS_MAX: usize = 100_000;
/// Maximum nesting depth of classes.
pub(super) const DEPTH_MAX: usize = 64;

/// Compiler for the contents of one branch, or for the objects of one class that pointers refer to.
pub(crate) struct Compiler<'a> {
    pub(super) classes: &'a Classes,
    /// For each slot, whether it has offsets.
    pub(crate) has_offsets: Vec<bool>,
    /// Names of the classes being compiled, outermost first.
    pub(super) path: Vec<String>,
    members_left: usize,
    /// The header kind of each class's objects.
    headers: HashMap<String, Arc<HeaderKind>>,
}

pub(super) fn unsupported(message: impl Into<String>) -> FormatError {
    FormatError::unsupported(message)
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(classes: &'a Classes) -> Self {
        Self { classes, has_offsets: Vec::new(), path: Vec::new(), members_left: MEMBERS_MAX, headers: HashMap::new() }
    }

    pub(crate) fn slot(&mut self, has_offsets: bool) -> usize {
        self.has_offsets.push(has_offsets);
        self.has_offsets.len() - 1
    }

    /// The header kind of a class's objects. Each program has its own header kinds, so misread bytes do not affect
    /// other programs.
    pub(super) fn header(&mut self, name: &str, supposed: Header) -> Arc<HeaderKind> {
        let new = || Arc::new(HeaderKind::supposed(supposed));
        Arc::clone(self.headers.entry(name.to_string()).or_insert_with(new))
    }

    /// Count one more member. Fails above [`MEMBERS_MAX`].
    pub(super) fn count_member(&mut self) -> Result<()> {
        self.members_left =
            self.members_left.checked_sub(1).ok_or_else(|| unsupported("its classes have too many members"))?;
        Ok(())
    }

    pub(super) fn flat(&mut self, scalar: impl Into<Scalar>) -> (usize, Form) {
        let (scalar, slot) = (scalar.into(), self.slot(false));
        (slot, Form::Flat { scalar, slot })
    }

    pub(crate) fn text(&mut self) -> Piece {
        let slot = self.slot(true);
        Piece { steps: vec![Step::Text { slot, length: TextLength::Short }], form: Form::Text { slot } }
    }

    pub(super) fn numbers(&mut self, scalar: impl Into<Scalar>) -> Piece {
        let scalar = scalar.into();
        let (slot, form) = self.flat(scalar);
        Piece { steps: vec![Step::Block(Block::numbers(scalar, 1, slot))], form }
    }

    /// A number that holds the length of a later array.
    pub(super) fn new_counter(&mut self, number: Number) -> (Counter, Piece) {
        let (slot, form) = self.flat(number);
        (Counter { slot, number }, Piece { steps: vec![Step::Block(Block::numbers(number, 1, slot))], form })
    }

    pub(crate) fn array_of_numbers(&mut self, scalar: Scalar, extents: &[usize]) -> Piece {
        let (slot, form) = self.flat(scalar);
        let block = Block::numbers(scalar, extents.iter().product(), slot);
        Piece { steps: vec![Step::Block(block)], form: form.arrays(extents) }
    }

    /// A variable number of fixed-size arrays of numbers. `counter` holds the number of arrays.
    pub(crate) fn counted_numbers(&mut self, counter: Counter, scalar: impl Into<Scalar>, extents: &[usize]) -> Piece {
        let scalar = scalar.into();
        let (slot, content) = self.flat(scalar);
        let list = self.slot(true);
        let each = extents.iter().product();
        let (is_triangle, has_flag) = (false, false);
        let counted = Counted { counter, is_triangle, has_flag, arrays: 1, each, list, slot, scalar };
        let form = Form::List { slot: list, content: Box::new(content.arrays(extents)) };
        Piece { steps: vec![Step::Counted(Box::new(counted))], form }
    }

    /// An object preceded by its class name.
    pub(crate) fn named_object(&mut self, declared: &str) -> Piece {
        let slot = self.slot(false);
        let form = Form::Pointer { slot, declared: declared.to_string() };
        Piece { steps: vec![Step::NamedObject { slot }], form }
    }

    /// A list of numbers: the number of elements, then the elements.
    pub(super) fn list_of_numbers(&mut self, scalar: impl Into<Scalar>) -> Piece {
        let content = self.numbers(scalar);
        self.list(content, None)
    }

    pub(super) fn list(&mut self, content: Piece, memberwise: Option<Object>) -> Piece {
        let list = self.slot(true);
        let collection = Collection { list, steps: content.steps, memberwise };
        let form = Form::List { slot: list, content: Box::new(content.form) };
        Piece { steps: vec![Step::Collection(Box::new(collection))], form }
    }

    /// An object whose header may have any version.
    pub(super) fn any_version(&self, class_name: &str, steps: Vec<Step>) -> Step {
        Step::Object(Arc::new(Object { takes_any: true, ..self.one_version(class_name, 1, steps) }))
    }

    /// An object with a single supported version.
    pub(super) fn one_version(&self, class_name: &str, version: i32, steps: Vec<Step>) -> Object {
        let members = flattened(&steps);
        let versions = vec![Version { version, checksum: 0, steps, members }];
        let header = Arc::new(HeaderKind::supposed(Header::Versioned));
        Object { class_name: class_name.to_string(), is_base: false, versions, takes_any: false, header }
    }

    /// Run `work` with the class `name` appended to the path of enclosing classes.
    pub(super) fn within<T>(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.path.len() > DEPTH_MAX {
            return Err(unsupported("its classes are nested too deeply"));
        }
        self.path.push(name.to_string());
        let result = work(self);
        self.path.pop();
        result
    }
}
