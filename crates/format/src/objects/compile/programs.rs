//! Programs of classes, which are compiled on first use, and programs of branches.

use std::sync::Arc;

use crate::error::{FormatError, Result};
use crate::layout::form::Form;
use crate::layout::program::{ClassProgram, Classes, Parts, Program};
use crate::layout::steps::Step;

use super::compiler::Compiler;
use super::fuse::fuse;
use super::piece::Piece;

/// Name of the only member of an unreadable object. The member holds the reason as a string.
const UNREAD: &str = "@unread";

impl Classes {
    /// The program for objects of a class that are streamed separately, for example objects that pointers refer to.
    pub(crate) fn get(&self, name: &str) -> Result<Arc<ClassProgram>> {
        if let Some(known) = self.compiled(name) {
            return Ok(known);
        }
        // Compile without holding the lock. Two threads may compile the same class, which is harmless.
        let mut compiler = Compiler::new(self);
        let program = match compiler.streamed(name) {
            Ok(piece) => ClassProgram::new(name, piece, compiler.has_offsets),
            Err(error) if self.are_whole => ClassProgram::unread(name, error),
            Err(error) => return Err(error),
        };
        let program = Arc::new(program);
        self.keep(&program);
        Ok(program)
    }
}

impl ClassProgram {
    pub(crate) fn new(name: &str, piece: Piece, has_offsets: Vec<bool>) -> Self {
        let program = Self::of_steps(name, piece.steps, piece.form, has_offsets);
        program.fuse_again();
        program
    }

    /// The program of a class whose objects cannot be read.
    pub(crate) fn unread(name: &str, error: FormatError) -> Self {
        let members = vec![(UNREAD.to_string(), Form::Text { slot: 0 })];
        let form = Form::Record { class_name: Some(name.to_string()), members };
        let mut program = Self::new(name, Piece { steps: Vec::new(), form }, vec![true]);
        program.unread = Some(error);
        program
    }

    /// Fuse the steps again, once the header kinds of the objects are known.
    pub(crate) fn fuse_again(&self) {
        self.set_steps(fuse(self.source()));
    }
}

impl Program {
    /// Create a program for entries that are a single object of this type.
    pub(crate) fn single(classes: &Arc<Classes>, compiler: Compiler<'_>, piece: Piece, type_name: String) -> Self {
        let class = ClassProgram::new(&type_name, piece, compiler.has_offsets);
        let classes = Arc::clone(classes);
        Self::of_parts(Parts { class, classes, elements: None, count: None, type_name })
    }

    /// Create a program for a branch with one member of the elements of a split collection. An entry has the member's
    /// value for each element.
    pub(crate) fn elements(
        classes: &Arc<Classes>,
        mut compiler: Compiler<'_>,
        piece: Piece,
        type_name: &str,
        count: Option<usize>,
    ) -> Self {
        let list = compiler.slot(true);
        let form = Form::List { slot: list, content: Box::new(piece.form) };
        let type_name = format!("{type_name}[]");
        let steps = match piece.steps.as_slice() {
            [_] => piece.steps,
            _ => vec![Step::Repeat { count: 1, steps: piece.steps }],
        };
        let class = ClassProgram::new(&type_name, Piece { steps, form }, compiler.has_offsets);
        Self::of_parts(Parts { class, classes: Arc::clone(classes), elements: Some(list), count, type_name })
    }

    /// Create a program for the object in a key's record.
    pub fn of_class(classes: &Arc<Classes>, class_name: &str) -> Result<Self> {
        let mut compiler = Compiler::new(classes);
        let piece = compiler.streamed(class_name)?;
        Ok(Self::single(classes, compiler, piece, class_name.to_string()))
    }
}
