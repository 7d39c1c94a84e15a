//! Programs as data: forms, steps, classes.

pub(crate) mod form;
pub(crate) mod program;
pub(crate) mod steps;
