//! The union of the top-level fields of the RNTuples at one path. An RNTuple that lacks fields of the union is extended
//! by these fields. They are 0 or empty for all its entries, as if they had been added after the last entry. ROOT's
//! RNTupleMerger fills fields of numbers, strings and collections in the same way.

use std::collections::HashSet;

use branchline_format::ntuple::encoding::{Encoding, Kind};
use branchline_format::ntuple::schema::{Alias, Column, Field, Role, Schema, TypeInfo};
use xxhash_rust::xxh3::xxh3_128;

use crate::write::pages::join::{join, real_kind};

/// The union of the fields of RNTuples at one path.
pub(crate) struct NtupleUnion {
    schema: Schema,
    /// A digest that changes whenever the fields change.
    pub(crate) digest: u128,
}

/// Builds the union of the fields of RNTuples, one RNTuple after another.
pub(crate) struct NtupleUnionBuilder {
    schema: Schema,
    is_needed: bool,
}

/// A schema with all fields of a union.
pub(crate) struct Completed {
    pub(crate) schema: Schema,
    /// The names of the added fields, except projected fields.
    pub(crate) added: Vec<String>,
}

impl NtupleUnionBuilder {
    /// Starts with the fields of the first RNTuple.
    pub(crate) fn new(first: &Schema) -> Self {
        Self { schema: first.clone(), is_needed: false }
    }

    /// Adds the fields of another RNTuple. Returns an error if fields have the same name but different types.
    pub(crate) fn add(&mut self, other: &Schema) -> Result<(), String> {
        let mut all = Extension::new(&self.schema, other).extended()?;
        let whole = Extension::new(other, &self.schema).extended()?;
        let joined = all.clone();
        join(&mut all, &whole).map_err(|difference| difference.what)?;
        self.is_needed |= joined.top.len() > self.schema.top.len() || whole.top.len() > other.top.len();
        self.schema = joined;
        Ok(())
    }

    /// Returns the union. Returns None if all RNTuples have the same fields.
    pub(crate) fn finish(self) -> Option<NtupleUnion> {
        let digest = xxh3_128(format!("{:?}", self.schema).as_bytes());
        self.is_needed.then_some(NtupleUnion { schema: self.schema, digest })
    }
}

impl NtupleUnion {
    /// Returns the first top-level field that is not in the union.
    pub(crate) fn unknown<'a>(&self, schema: &'a Schema) -> Option<&'a str> {
        let known = names_at_top(&self.schema);
        names_at_top(schema).into_iter().find(|name| !known.contains(name))
    }

    /// Returns the schema, extended by all fields of the union that it lacks. Returns an error if such a field cannot
    /// be filled.
    pub(crate) fn complete(&self, own: &Schema) -> Result<Completed, String> {
        let mut schema = Extension::new(own, &self.schema).extended()?;
        let fields = schema.fields.len();
        for column in own.columns.len()..schema.columns.len() {
            let field = &schema.fields[schema.columns[column].field];
            let kind =
                if is_quantized(&schema.columns[column]) { real_kind(field) } else { schema.columns[column].kind };
            let column = &mut schema.columns[column];
            (column.kind, column.encoding) = (kind, kind.encoding());
            // Mark the column as added after the last entry, so that none of its elements are stored.
            (column.first_element, column.suppressed_before) = (u64::MAX, false);
        }
        if let Some(field) = (own.fields.len()..fields).find(|field| is_impossible(&schema, *field)) {
            let path = schema.path_of(field);
            return Err(format!("field {path} is missing, and cannot be filled as its class has a streamer"));
        }
        let added = schema.top[own.top.len()..].iter().map(|field| &schema.fields[*field]);
        let added = added.filter(|field| field.source.is_none()).map(|field| field.name.clone()).collect();
        Ok(Completed { schema, added })
    }
}

fn names_at_top(schema: &Schema) -> Vec<&str> {
    schema.top.iter().map(|field| schema.fields[*field].name.as_str()).collect()
}

/// Whether a column is quantized, in which case zero bits do not stand for the number 0.
fn is_quantized(column: &Column) -> bool {
    matches!(column.encoding, Ok(Encoding { kind: Kind::Quantized { .. }, .. }))
}

/// Whether filling a field would require objects that are written by streamers. A field within a collection never
/// requires them, because the collections are empty.
fn is_impossible(schema: &Schema, field: usize) -> bool {
    let parents = std::iter::successors(Some(field), |field| schema.fields[*field].parent).skip(1);
    let is_within_collection = parents
        .take(schema.fields.len())
        .any(|parent| matches!(schema.fields[parent].role, Role::Collection | Role::Variant));
    let field = &schema.fields[field];
    !is_within_collection && field.source.is_none() && matches!(field.role, Role::Streamer | Role::Unknown(_))
}

/// Extends a schema by those top-level fields of another schema that it lacks.
struct Extension<'a> {
    own: &'a Schema,
    other: &'a Schema,
    /// For each field of the other schema, whether it is added. Includes the descendants of added top-level fields.
    is_added: Vec<bool>,
    /// For each field of the other schema, its index in the extended schema.
    numbers: Vec<Option<usize>>,
}

impl<'a> Extension<'a> {
    fn new(own: &'a Schema, other: &'a Schema) -> Self {
        let known: HashSet<&str> = names_at_top(own).into_iter().collect();
        let is_missing = |field: &&usize| !known.contains(other.fields[**field].name.as_str());
        let mut next: Vec<usize> = other.top.iter().filter(is_missing).copied().collect();
        let mut is_added = vec![false; other.fields.len()];
        while let Some(field) = next.pop() {
            if !std::mem::replace(&mut is_added[field], true) {
                next.extend(&other.fields[field].children);
            }
        }
        let mut count = own.fields.len();
        let mut number = |is_added: &bool| {
            count += usize::from(*is_added);
            is_added.then(|| count - 1)
        };
        let numbers = is_added.iter().map(&mut number).collect();
        Self { own, other, is_added, numbers }
    }

    fn extended(&self) -> Result<Schema, String> {
        let (own, other) = (self.own, self.other);
        let mut schema = own.clone();
        let mut columns: Vec<Option<usize>> = vec![None; other.columns.len()];
        for (number, column) in other.columns.iter().enumerate().filter(|(_, column)| self.is_added[column.field]) {
            columns[number] = Some(schema.columns.len());
            schema.columns.push(Column { field: self.number_of(column.field)?, ..column.clone() });
        }
        let added = || (0..other.fields.len()).filter(|field| self.is_added[*field]);
        for field in added() {
            let one = &other.fields[field];
            let parent = one.parent.map(|parent| self.number_of(parent)).transpose()?;
            let source = one.source.map(|source| self.number_of(source)).transpose()?;
            let children = one.children.iter().map(|child| self.number_of(*child)).collect::<Result<_, _>>()?;
            let known = |columns_of: &Vec<usize>| columns_of.iter().filter_map(|column| columns[*column]).collect();
            let own_columns = if source.is_none() { one.columns.iter().map(known).collect() } else { Vec::new() };
            schema.fields.push(Field { parent, source, children, columns: own_columns, ..one.clone() });
        }
        for field in added().filter(|field| other.fields[*field].source.is_some()) {
            self.add_aliases(field, &mut schema)?;
        }
        let top = other.top.iter().filter(|field| self.is_added[**field]);
        let is_new = |info: &&TypeInfo| {
            let key = |one: &TypeInfo| (one.content, one.type_version, one.type_name.clone());
            own.type_infos.iter().all(|known| key(known) != key(info))
        };
        schema.type_infos.extend(other.type_infos.iter().filter(is_new).cloned());
        schema.top.extend(top.map(|field| self.number_of(*field)).collect::<Result<Vec<usize>, _>>()?);
        Ok(schema)
    }

    /// Adds the columns of a projected field, for all representations that its source field has in this schema.
    fn add_aliases(&self, field: usize, schema: &mut Schema) -> Result<(), String> {
        let Some(first) = self.other.fields[field].columns.first() else { return Ok(()) };
        let shown = self.number_of(field)?;
        let place = |column: &usize| {
            let owner = self.other.columns[*column].field;
            let place =
                self.other.fields[owner].columns.iter().find_map(|all| all.iter().position(|one| one == column));
            Some((self.number_of(owner).ok()?, place?))
        };
        let places = first.iter().map(place).collect::<Option<Vec<(usize, usize)>>>();
        let places = places.ok_or_else(|| self.shows_nothing(field))?;
        let counts = places.iter().map(|(owner, _)| schema.fields[*owner].columns.len());
        for representation in 0..counts.min().unwrap_or(0) {
            let column = |(owner, place): &(usize, usize)| schema.fields[*owner].columns[representation].get(*place);
            let columns = places.iter().map(column).map(Option::<&usize>::copied).collect::<Option<Vec<usize>>>();
            let columns = columns.ok_or_else(|| self.shows_nothing(field))?;
            schema.aliases.extend(columns.iter().map(|column| Alias { column: *column, field: shown }));
            schema.fields[shown].columns.push(columns);
        }
        Ok(())
    }

    /// Returns the index that a field of the other schema has in the extended schema.
    fn number_of(&self, field: usize) -> Result<usize, String> {
        let known = self.numbers[field].or_else(|| same_field(self.other, field, self.own));
        known.ok_or_else(|| format!("field {} is missing", self.other.path_of(field)))
    }

    fn shows_nothing(&self, field: usize) -> String {
        format!("field {} projects a missing field", self.other.path_of(field))
    }
}

/// Returns the field of `own` that has the same path as this field of another schema.
fn same_field(other: &Schema, field: usize, own: &Schema) -> Option<usize> {
    let parents = std::iter::successors(Some(field), |field| other.fields[*field].parent);
    let path: Vec<&str> = parents.take(other.fields.len()).map(|field| other.fields[field].name.as_str()).collect();
    let mut level = &own.top;
    let mut found = None;
    for name in path.iter().rev() {
        let number = *level.iter().find(|field| own.fields[**field].name == **name)?;
        level = &own.fields[number].children;
        found = Some(number);
    }
    found
}
