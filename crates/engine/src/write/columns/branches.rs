//! Maps values to branches of a TTree. Values that have no equivalent are refused, with their names in the error.

use branchline_format::numbers::number::Number;
use branchline_format::write::tree::tree_record::BranchKind;

use crate::write::columns::writer::{NamedColumn, RefusedField, Values};

/// The source of a branch's values: the index of a field, and the indices of the members to follow from the field. The
/// path may lead through records and through the elements of at most one list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) field: usize,
    pub(crate) members: Vec<usize>,
    /// NumPy type of the innermost numbers; empty for strings.
    pub(crate) dtype: &'static str,
}

/// A planned branch.
pub(crate) struct PlannedBranch {
    pub(crate) name: String,
    pub(crate) kind: BranchKind,
    pub(crate) source: Source,
}

/// The planned branches for some fields, and the fields that cannot become branches.
pub(crate) struct PlannedBranches {
    pub(crate) branches: Vec<PlannedBranch>,
    pub(crate) refused: Vec<RefusedField>,
}

/// Plans the branches for these fields. Strings become branches of the kind `text`.
pub(crate) fn branches_of(fields: &[NamedColumn<'_>], text: &BranchKind) -> PlannedBranches {
    let mut planned = PlannedBranches { branches: Vec::new(), refused: Vec::new() };
    for (field, NamedColumn { name, values, counter, .. }) in fields.iter().enumerate() {
        let mut planner = Planner { field, members: Vec::new(), branches: &mut planned.branches, text };
        let added = match counter {
            Some(counter) => planner.add_counted(name, values, counter),
            None => planner.add(name, values, false),
        };
        if let Err(reason) = added {
            planned.refused.push(RefusedField { name: name.clone(), reason });
        }
    }
    planned
}

struct Planner<'a> {
    field: usize,
    members: Vec<usize>,
    branches: &'a mut Vec<PlannedBranch>,
    text: &'a BranchKind,
}

impl Planner<'_> {
    fn add(&mut self, name: &str, values: &Values<'_>, in_list: bool) -> Result<(), String> {
        let none = || Err(format!("{name}: a TTree branch cannot store {}", described(values)));
        match values {
            Values::Record { members, .. } => {
                for (index, (member, values)) in members.iter().enumerate() {
                    self.below(index, &format!("{name}.{member}"), values, in_list)?;
                }
                return Ok(());
            }
            Values::Tuple { items, .. } => {
                for (index, values) in items.iter().enumerate() {
                    self.below(index, &format!("{name}._{index}"), values, in_list)?;
                }
                return Ok(());
            }
            Values::List { content, .. } if !in_list && holds_records(content) => {
                return self.add(name, content, true);
            }
            _ => {}
        }
        let Some((kind, dtype)) = kind_of(values, in_list, self.text) else { return none() };
        let source = Source { field: self.field, members: self.members.clone(), dtype };
        self.branches.push(PlannedBranch { name: name.to_string(), kind, source });
        Ok(())
    }

    /// Adds a branch of arrays whose lengths are in the counter branch. The counter branch is created if it does not
    /// exist.
    fn add_counted(&mut self, name: &str, values: &Values<'_>, counter: &str) -> Result<(), String> {
        let none = || format!("{name}: a TTree array with a counter cannot store {}", described(values));
        let Values::List { content, .. } = values else { return Err(none()) };
        let (dtype, dimensions) = fixed(content).ok_or_else(none)?;
        let number = leaf(dtype).ok_or_else(none)?;
        let known = self.branches.iter().position(|branch| branch.name == counter);
        let counted_by = match known {
            Some(index) if self.branches[index].kind != BranchKind::Counter => {
                return Err(format!("{name}: its counter {counter} already exists as another branch"));
            }
            Some(index) => index,
            None => {
                let source = Source { field: self.field, members: Vec::new(), dtype: "i4" };
                let kind = BranchKind::Counter;
                self.branches.push(PlannedBranch { name: counter.to_string(), kind, source });
                self.branches.len() - 1
            }
        };
        let source = Source { field: self.field, members: Vec::new(), dtype };
        let kind = BranchKind::Counted(number, dimensions, counted_by);
        self.branches.push(PlannedBranch { name: name.to_string(), kind, source });
        Ok(())
    }

    fn below(&mut self, index: usize, name: &str, values: &Values<'_>, in_list: bool) -> Result<(), String> {
        self.members.push(index);
        let added = self.add(name, values, in_list);
        self.members.pop();
        added
    }
}

fn holds_records(content: &Values<'_>) -> bool {
    matches!(content, Values::Record { .. } | Values::Tuple { .. })
}

/// Returns the kind of a branch for these values, and the NumPy type of its numbers.
fn kind_of(values: &Values<'_>, in_list: bool, text: &BranchKind) -> Option<(BranchKind, &'static str)> {
    let list = |content: &Values| match content {
        Values::Flat { dtype, .. } => leaf(dtype).map(|kind| (BranchKind::List(kind), *dtype)),
        Values::Text { .. } => Some((BranchKind::Texts, "")),
        Values::List { content, .. } | Values::Regular { content, .. } => match &**content {
            Values::Flat { dtype, .. } => leaf(dtype).map(|kind| (BranchKind::Lists(kind), *dtype)),
            _ => None,
        },
        _ => None,
    };
    if in_list {
        return list(values);
    }
    match values {
        Values::Text { .. } => Some((text.clone(), "")),
        Values::List { content, .. } => list(content),
        _ => {
            let (dtype, dimensions) = fixed(values)?;
            Some((BranchKind::Numbers(leaf(dtype)?, dimensions), dtype))
        }
    }
}

fn fixed(values: &Values<'_>) -> Option<(&'static str, Vec<usize>)> {
    match values {
        Values::Flat { dtype, .. } => Some((dtype, Vec::new())),
        Values::Regular { size, content } => {
            let (dtype, mut dimensions) = fixed(content)?;
            dimensions.insert(0, *size);
            Some((dtype, dimensions))
        }
        _ => None,
    }
}

/// Returns the type of a number in a branch. Half-precision numbers become floats, because branches cannot store them.
fn leaf(dtype: &str) -> Option<Number> {
    match Number::of_dtype(dtype)? {
        Number::F16 => Some(Number::F32),
        number => Some(number),
    }
}

fn described(values: &Values<'_>) -> &'static str {
    match values {
        Values::Flat { dtype: "unknown", .. } => "values of unknown type (none are given)",
        Values::Flat { .. } => "numbers of this type",
        Values::Option { .. } => "values that may be missing",
        Values::Union { .. } => "values of several types",
        Values::List { content, .. } => match &**content {
            Values::Option { .. } | Values::Flat { dtype: "unknown", .. } => described(content),
            _ => "nested lists of this type",
        },
        Values::Regular { .. } => "arrays of other values than numbers",
        Values::Text { .. } | Values::Record { .. } | Values::Tuple { .. } => "values of this type",
    }
}
