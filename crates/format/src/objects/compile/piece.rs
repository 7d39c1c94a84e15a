//! The compiled form of part of a class.

use std::collections::HashSet;

use crate::layout::form::Form;
use crate::layout::steps::{Counter, Step};

/// Steps and the columns that they fill.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) steps: Vec<Step>,
    pub(crate) form: Form,
}

impl Piece {
    /// Combine members into a record. Duplicate names get the member's position as a suffix: `x#2`.
    pub(crate) fn record(members: Vec<(&str, Self)>) -> Self {
        let mut steps = Vec::new();
        let mut forms: Vec<(String, Form)> = Vec::new();
        let mut taken: HashSet<String> = HashSet::new();
        for (name, piece) in members {
            let is_taken = taken.contains(name);
            let name = if is_taken { format!("{name}#{}", forms.len() + 1) } else { name.to_string() };
            taken.insert(name.clone());
            steps.extend(piece.steps);
            forms.push((name, piece.form));
        }
        Self { steps, form: Form::Record { class_name: None, members: forms } }
    }

    /// Use the number as the counter of a later array; None if the piece is not a number.
    pub(crate) fn as_counter(&self) -> Option<Counter> {
        match &self.form {
            Form::Flat { scalar, slot } => Some(Counter { slot: *slot, number: scalar.number() }),
            Form::Regular { .. }
            | Form::List { .. }
            | Form::Text { .. }
            | Form::Record { .. }
            | Form::Tuple(_)
            | Form::Pointer { .. } => None,
        }
    }
}
