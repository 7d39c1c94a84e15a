//! ROOT classes without a streamer info, or with a format that differs from their streamer info.

use std::sync::Arc;

use crate::error::Result;
use crate::layout::form::Form;
use crate::layout::steps::{Block, Pointers, PointersKind, Step};
use crate::numbers::number::Number;

use super::compiler::Compiler;
use super::piece::Piece;

/// Minimum supported version of TTreeIndex. Older versions combine the major and minor values in one number.
const TREE_INDEX_VERSION: i32 = 2;

impl Compiler<'_> {
    /// Compile a ROOT class with a special format; None for all other classes.
    pub(super) fn special(&mut self, name: &str) -> Result<Option<Piece>> {
        if let Some(number) = Number::of_array_class(name) {
            return Ok(Some(self.list_of_numbers(number)));
        }
        let piece = match name {
            "TObject" => self.tobject(),
            // TQObject::Streamer writes nothing, not even a header.
            "TQObject" => Piece { steps: Vec::new(), form: record(name, Vec::new()) },
            "TString" => self.text(),
            "TDatime" => {
                let (slot, form) = self.flat(Number::U32);
                let steps = vec![Step::Block(Block::numbers(Number::U32, 1, slot))];
                Piece { steps, form: record(name, vec![("fDatime", form)]) }
            }
            "TRef" => {
                let (slot, form) = self.flat(Number::U32);
                Piece { steps: vec![Step::TRef { slot }], form: record(name, vec![("ref", form)]) }
            }
            "TRefArray" => self.tref_array(),
            "TTreeIndex" => self.tree_index()?,
            "TMatrixTSym<double>" => self.symmetric_matrix(name, Number::F64),
            "TMatrixTSym<float>" => self.symmetric_matrix(name, Number::F32),
            "TObjArray" => self.pointers(name, PointersKind::Array),
            "TList" | "THashList" | "TSortedList" => self.pointers(name, PointersKind::List),
            "TMap" => self.pointers(name, PointersKind::Map),
            "TClonesArray" => {
                let (list, slot) = (self.slot(true), self.slot(false));
                let content = Box::new(Form::Pointer { slot, declared: "TObject".to_string() });
                Piece { steps: vec![Step::Clones { list, slot }], form: Form::List { slot: list, content } }
            }
            _ => return Ok(None),
        };
        Ok(Some(piece))
    }

    /// Whether a class has a special format.
    pub(crate) fn is_special(&mut self, name: &str) -> bool {
        let slots_count = self.has_offsets.len();
        let is_special = matches!(self.special(name), Ok(Some(_)));
        self.has_offsets.truncate(slots_count);
        is_special
    }

    /// A TObject, including its members if the caller requests whole objects.
    pub(super) fn tobject(&mut self) -> Piece {
        if !self.classes.are_whole {
            return Piece { steps: vec![Step::TObject], form: record("TObject", Vec::new()) };
        }
        let ((unique_id, first), (bits, second)) = (self.flat(Number::U32), self.flat(Number::U32));
        let form = record("TObject", vec![("fUniqueID", first), ("fBits", second)]);
        Piece { steps: vec![Step::Identity { unique_id, bits }], form }
    }

    /// A TRefArray (TRefArray::Streamer): name, size, lower bound, process ID, and the unique IDs of the objects.
    fn tref_array(&mut self) -> Piece {
        let name = self.text();
        let (counter, size) = self.new_counter(Number::I32);
        let numbers = self.counted_numbers(counter, Number::I32, &[]);
        let mut steps = vec![Step::TObject];
        steps.extend(name.steps.into_iter().chain(size.steps));
        steps.push(Step::Block(Block::skipped(6))); // fLowerBound and the process ID
        steps.extend(numbers.steps);
        let members = vec![("fName", name.form), ("fSize", size.form), ("refs", numbers.form)];
        Piece { steps: vec![self.any_version("TRefArray", steps)], form: record("TRefArray", members) }
    }

    /// The index of a tree, as TTreeIndex::Streamer writes it since version 2: sorted pairs of values, and the index of
    /// the entry for each pair.
    fn tree_index(&mut self) -> Result<Piece> {
        let (named, first, second) = (self.class("TNamed", None)?, self.text(), self.text());
        let (counter, count) = self.new_counter(Number::I64);
        let mut steps = vec![self.any_version("TVirtualIndex", named.steps)];
        steps.extend(first.steps.into_iter().chain(second.steps).chain(count.steps));
        let mut members = vec![("fMajorName", first.form), ("fMinorName", second.form), ("fN", count.form)];
        for name in ["fIndexValues", "fIndexValuesMinor", "fIndex"] {
            let numbers = self.counted_numbers(counter, Number::I64, &[]);
            steps.extend(numbers.steps);
            members.push((name, numbers.form));
        }
        let object = Arc::new(self.one_version("TTreeIndex", TREE_INDEX_VERSION, steps));
        Ok(Piece { steps: vec![Step::Object(object)], form: record("TTreeIndex", members) })
    }

    /// A symmetric matrix (TMatrixTSym::Streamer): the header and members of TMatrixTBase, then the upper triangle.
    fn symmetric_matrix(&mut self, name: &str, number: Number) -> Piece {
        let mut steps = vec![Step::TObject];
        let mut members = Vec::new();
        let (counter, rows) = self.new_counter(Number::I32);
        steps.extend(rows.steps);
        members.push(("fNrows", rows.form));
        for (name, number) in [
            ("fNcols", Number::I32),
            ("fRowLwb", Number::I32),
            ("fColLwb", Number::I32),
            ("fNelems", Number::U32),
            ("fNrowIndex", Number::I32),
            ("fTol", number),
        ] {
            let piece = self.numbers(number);
            steps.extend(piece.steps);
            members.push((name, piece.form));
        }
        let mut elements = self.counted_numbers(counter, number, &[]);
        if let [Step::Counted(counted)] = elements.steps.as_mut_slice() {
            counted.is_triangle = true;
        }
        members.push(("fElements", elements.form));
        let mut steps = vec![self.any_version("TMatrixTBase", steps)];
        steps.extend(elements.steps);
        Piece { steps, form: record(name, members) }
    }

    fn pointers(&mut self, class_name: &str, kind: PointersKind) -> Piece {
        let list = self.slot(true);
        let slots: Vec<usize> = (0..if kind == PointersKind::Map { 2 } else { 1 }).map(|_| self.slot(false)).collect();
        let mut forms: Vec<Form> =
            slots.iter().map(|slot| Form::Pointer { slot: *slot, declared: "TObject".to_string() }).collect();
        let content = match forms.pop() {
            Some(form) if forms.is_empty() => form,
            last => {
                forms.extend(last);
                Form::Tuple(forms)
            }
        };
        let form = Form::List { slot: list, content: Box::new(content) };
        let name = self.classes.are_whole.then(|| self.slot(true));
        let form = match name {
            Some(slot) => record(class_name, vec![("fName", Form::Text { slot }), ("objects", form)]),
            None => form,
        };
        Piece { steps: vec![Step::Pointers(Box::new(Pointers { list, kind, slots, name }))], form }
    }
}

fn record(class_name: &str, members: Vec<(&str, Form)>) -> Form {
    let members = members.into_iter().map(|(name, form)| (name.to_string(), form)).collect();
    Form::Record { class_name: Some(class_name.to_string()), members }
}
