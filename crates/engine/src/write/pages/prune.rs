//! Removes unwanted fields from the schema of an RNTuple. Structural fields (items of collections, base classes) are
//! kept together with the fields that need them, and so are the source fields of projected fields.

use std::collections::HashSet;

use branchline_format::ntuple::names::{is_tuple, Branch};
use branchline_format::ntuple::schema::{Alias, Schema};

/// A schema, with the index that each of its columns has in the file.
pub(crate) struct Pruned {
    pub(crate) schema: Schema,
    pub(crate) columns: Vec<usize>,
}

impl Pruned {
    /// Returns the whole schema.
    pub(crate) fn whole(schema: &Schema) -> Self {
        Self { schema: schema.clone(), columns: (0..schema.columns.len()).collect() }
    }

    /// Keeps the fields with the wanted paths, and all fields that these need. Returns an error if items of a pair or
    /// tuple would be removed, because the type name lists the items.
    pub(crate) fn new(schema: &Schema, branches: &[Branch], wanted: &HashSet<String>) -> Result<Self, String> {
        let mut keeper =
            Keeper { schema, is_named: vec![false; schema.fields.len()], kept: vec![false; schema.fields.len()] };
        branches.iter().for_each(|branch| keeper.is_named[branch.field] = true);
        // Also remove a record without any wanted member. Go backwards, because members come after their record in the
        // list.
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
            return Err(format!("{path} is a {type_name}, from which items cannot be removed"));
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
    /// Keeps a field with its ancestors. For a projected field, also keeps its source.
    fn keep(&mut self, field: usize) {
        let mut next = Some(field);
        while let Some(one) = next.filter(|one| !self.kept[*one]) {
            self.keep_below(one);
            next = self.schema.fields[one].parent;
        }
    }

    /// Keeps a field with its structural children.
    fn keep_below(&mut self, field: usize) {
        if std::mem::replace(&mut self.kept[field], true) {
            return;
        }
        let info = &self.schema.fields[field];
        if let Some(source) = info.source {
            self.keep(source);
            // Keep a column of elements, because the number of elements is derived from it.
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

/// Returns the new index of each kept item.
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
