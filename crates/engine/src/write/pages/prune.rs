//! The schema of an RNTuple without fields that are not wanted. Fields that only carry structure (items of collections,
//! base classes) stay with what they carry, and what a field shows stays with it.

use std::collections::HashSet;

use branchline_format::ntuple::names::{is_tuple, Branch};
use branchline_format::ntuple::schema::{Alias, Schema};

/// A schema, and for each of its columns the number that it has in the file.
pub(crate) struct Pruned {
    pub(crate) schema: Schema,
    pub(crate) columns: Vec<usize>,
}

impl Pruned {
    /// All of a schema.
    pub(crate) fn whole(schema: &Schema) -> Self {
        Self { schema: schema.clone(), columns: (0..schema.columns.len()).collect() }
    }

    /// The fields with the wanted paths, and those that they need. Refuses to take items out of pairs and tuples, which
    /// say in their types what they hold.
    pub(crate) fn new(schema: &Schema, branches: &[Branch], wanted: &HashSet<String>) -> Result<Self, String> {
        let mut keeper =
            Keeper { schema, is_named: vec![false; schema.fields.len()], kept: vec![false; schema.fields.len()] };
        branches.iter().for_each(|branch| keeper.is_named[branch.field] = true);
        // A record without any wanted member is left out, too. Members come after their record in the list.
        let mut is_wanted: Vec<bool> = branches.iter().map(|branch| wanted.contains(&branch.path)).collect();
        let mut below: Vec<(bool, bool)> = vec![(false, false); branches.len()];
        for number in (0..branches.len()).rev() {
            let (has_any, has_wanted) = below[number];
            is_wanted[number] = if has_any { has_wanted } else { is_wanted[number] };
            if let Some(parent) = branches[number].parent {
                below[parent] = (true, below[parent].1 || is_wanted[number]);
            }
        }
        for (branch, _) in branches.iter().zip(is_wanted).filter(|(_, is_wanted)| *is_wanted) {
            keeper.keep(branch.field);
        }
        if let Some(torn) = (0..schema.fields.len()).find(|field| keeper.is_torn(*field)) {
            let (path, type_name) = (schema.path_of(torn), &schema.fields[torn].type_name);
            return Err(format!("{path} is a {type_name}, of which no item can be left out"));
        }
        if !keeper.kept.contains(&true) {
            return Err("no field would be left".to_string());
        }
        Ok(keeper.pruned())
    }
}

struct Keeper<'a> {
    schema: &'a Schema,
    is_named: Vec<bool>,
    kept: Vec<bool>,
}

impl Keeper<'_> {
    /// Keeps a field with all that it belongs to, and with what it shows.
    fn keep(&mut self, field: usize) {
        let mut next = Some(field);
        while let Some(one) = next.filter(|one| !self.kept[*one]) {
            self.keep_below(one);
            next = self.schema.fields[one].parent;
        }
    }

    /// Keeps a field with the structure below it.
    fn keep_below(&mut self, field: usize) {
        if std::mem::replace(&mut self.kept[field], true) {
            return;
        }
        let info = &self.schema.fields[field];
        if let Some(source) = info.source {
            self.keep(source);
            // The number of elements follows from a column of them.
            if info.children.is_empty() {
                self.keep_first_below(source);
            }
        }
        for child in &info.children {
            if !self.is_named[*child] {
                self.keep_below(*child);
            }
        }
    }

    fn keep_first_below(&mut self, field: usize) {
        if let Some(child) = self.schema.fields[field].children.first() {
            self.keep(*child);
            self.keep_first_below(*child);
        }
    }

    fn is_torn(&self, field: usize) -> bool {
        let children = &self.schema.fields[field].children;
        self.kept[field] && is_tuple(self.schema, field) && !children.iter().all(|child| self.kept[*child])
    }

    fn pruned(&self) -> Pruned {
        let fields = numbers(&self.kept);
        let is_kept: Vec<bool> = self.schema.columns.iter().map(|column| self.kept[column.field]).collect();
        let columns = numbers(&is_kept);
        let mut schema = self.schema.clone();
        let renumbered = |all: &[usize], new: &[Option<usize>]| all.iter().filter_map(|one| new[*one]).collect();
        schema.fields = Vec::new();
        for (number, field) in self.schema.fields.iter().enumerate().filter(|(number, _)| self.kept[*number]) {
            let mut field = field.clone();
            debug_assert_eq!(fields[number], Some(schema.fields.len()));
            field.parent = field.parent.and_then(|parent| fields[parent]);
            field.source = field.source.and_then(|source| fields[source]);
            field.children = renumbered(&field.children, &fields);
            field.columns = field.columns.iter().map(|some| renumbered(some, &columns)).collect();
            schema.fields.push(field);
        }
        schema.columns.retain(|column| self.kept[column.field]);
        schema.columns.iter_mut().for_each(|column| column.field = fields[column.field].unwrap_or_default());
        schema.top = renumbered(&self.schema.top, &fields);
        let alias = |one: &Alias| Some(Alias { column: columns[one.column]?, field: fields[one.field]? });
        schema.aliases = self.schema.aliases.iter().filter_map(alias).collect();
        let columns = (0..is_kept.len()).filter(|column| is_kept[*column]).collect();
        Pruned { schema, columns }
    }
}

/// The new numbers of those that are kept.
fn numbers(kept: &[bool]) -> Vec<Option<usize>> {
    let mut count = 0;
    let mut number = |is_kept: &bool| {
        is_kept.then(|| {
            count += 1;
            count - 1
        })
    };
    kept.iter().map(&mut number).collect()
}
