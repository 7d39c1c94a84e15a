//! The schema of an RNTuple that is made of several: whose fields must be the same, while their columns may be stored
//! in different ways, which then are representations of one field.

use branchline_format::ntuple::encoding::{Encoding, Kind};
use branchline_format::ntuple::number_types::ColumnType;
use branchline_format::ntuple::schema::{Alias, Column, Field, Role, Schema, TypeInfo};
use branchline_format::numbers::number::Number;

/// For each column of an input the one of the output.
pub(crate) type ColumnMap = Vec<usize>;

/// How an RNTuple differs from others.
#[derive(Debug)]
pub(crate) struct Difference {
    /// A part of a sentence.
    pub(crate) what: String,
    /// Whether it is only a field at the top that one of them lacks.
    pub(crate) is_lack: bool,
}

impl From<String> for Difference {
    fn from(what: String) -> Self {
        Self { what, is_lack: false }
    }
}

/// The schema of the output when there is one input: as if no field had been added late.
pub(crate) fn of_first(schema: &Schema) -> Schema {
    let mut own = schema.clone();
    for column in &mut own.columns {
        (column.first_element, column.suppressed_before) = (0, false);
    }
    own
}

/// Adds to the schema of the output the representations that it lacks of an input's fields, and returns where the
/// columns of the input are in it. Refuses an input that has other fields.
pub(crate) fn join(output: &mut Schema, input: &Schema) -> Result<ColumnMap, Difference> {
    let mut joiner = Joiner { output, input, columns: vec![usize::MAX; input.columns.len()] };
    let (ours, theirs) = (joiner.output.top.clone(), input.top.clone());
    let lack = joiner.fields(&ours, &theirs)?;
    if let Some(what) = lack {
        return Err(Difference { what, is_lack: true });
    }
    if let Some(lost) = joiner.columns.iter().position(|column| *column == usize::MAX) {
        return Err(format!("column {lost} belongs to no field that holds data").into());
    }
    let columns = joiner.columns;
    join_type_infos(output, &input.type_infos)?;
    Ok(columns)
}

fn join_type_infos(output: &mut Schema, infos: &[TypeInfo]) -> Result<(), Difference> {
    for info in infos {
        let key = |one: &TypeInfo| (one.content, one.type_version, one.type_name.clone());
        match output.type_infos.iter().find(|one| key(one) == key(info)) {
            None => output.type_infos.push(info.clone()),
            Some(known) if known.bytes == info.bytes => {}
            Some(_) => {
                return Err("the classes of its streamed objects are described in another way".to_string().into())
            }
        }
    }
    Ok(())
}

struct Joiner<'a> {
    output: &'a mut Schema,
    input: &'a Schema,
    columns: ColumnMap,
}

impl Joiner<'_> {
    /// Joins fields by their names. Returns the first that one side lacks.
    fn fields(&mut self, ours: &[usize], theirs: &[usize]) -> Result<Option<String>, String> {
        let mut rest = theirs.to_vec();
        let mut lack = None;
        for own in ours {
            let name = &self.output.fields[*own].name;
            match rest.iter().position(|other| self.input.fields[*other].name == *name) {
                Some(place) => self.field(*own, rest.remove(place))?,
                None => lack = lack.or_else(|| Some(format!("field {} is missing", self.output.path_of(*own)))),
            }
        }
        let more = || rest.first().map(|more| format!("there is a field {}", self.input.path_of(*more)));
        Ok(lack.or_else(more))
    }

    fn field(&mut self, own: usize, other: usize) -> Result<(), String> {
        let (ours, theirs) = (&self.output.fields[own], &self.input.fields[other]);
        let path = || self.input.path_of(other);
        if let Some(what) = difference(ours, theirs) {
            return Err(format!("field {} {what}", path()));
        }
        let source = |schema: &Schema, field: &Field| field.source.map(|source| schema.path_of(source));
        let (shown, other_shown) = (source(self.output, ours), source(self.input, theirs));
        if shown != other_shown {
            let what = other_shown.map_or("holds data of its own".to_string(), |other| format!("shows field {other}"));
            return Err(format!("field {} {what}", path()));
        }
        if theirs.source.is_none() {
            self.representations(own, other)?;
        }
        let (ours, theirs) = (self.output.fields[own].children.clone(), self.input.fields[other].children.clone());
        self.fields(&ours, &theirs)?.map_or(Ok(()), Err)
    }

    fn representations(&mut self, own: usize, other: usize) -> Result<(), String> {
        for columns in &self.input.fields[other].columns {
            let theirs: Vec<&Column> = columns.iter().map(|column| &self.input.columns[*column]).collect();
            let known = match self.known(own, &theirs) {
                Some(known) => known,
                None => {
                    let kinds = self.new_kinds(own, &theirs);
                    let is_there = |known: &&Vec<usize>| {
                        known.iter().map(|column| self.output.columns[*column].kind).eq(kinds.iter().copied())
                    };
                    let there = self.output.fields[own].columns.iter().find(is_there).cloned();
                    there
                        .or_else(|| add_representation(self.output, own, &kinds))
                        .ok_or_else(|| format!("field {} has columns of another kind", self.input.path_of(other)))?
                }
            };
            for (column, known) in columns.iter().zip(known) {
                self.columns[*column] = known;
            }
        }
        Ok(())
    }

    /// The representation of a field that pages of such columns can be brought into.
    fn known(&self, own: usize, theirs: &[&Column]) -> Option<Vec<usize>> {
        let all = &self.output.fields[own].columns;
        let is = |columns: &&Vec<usize>, like: fn(&Column, &Column) -> bool| {
            let ours = columns.iter().map(|column| &self.output.columns[*column]);
            columns.len() == theirs.len() && ours.zip(theirs).all(|(one, two)| like(one, two))
        };
        let same = all.iter().find(|columns| is(columns, |one, two| one.kind == two.kind));
        // Pages of the same elements are encoded again, so that readers need only one encoding.
        let found = same.or_else(|| all.iter().find(|columns| is(columns, have_same_elements)));
        found.cloned()
    }

    /// How pages that no representation can take are stored: as they are, but packed numbers as the numbers that they
    /// stand for, as ROOT takes their bits from the first representation alone.
    fn new_kinds(&self, own: usize, theirs: &[&Column]) -> Vec<ColumnType> {
        if theirs.iter().any(|column| is_packed(column)) {
            return vec![real_kind(&self.output.fields[own]); theirs.len()];
        }
        theirs.iter().map(|column| column.kind).collect()
    }
}

/// How the numbers of a field are stored when they are not packed.
pub(crate) fn real_kind(field: &Field) -> ColumnType {
    let number = if field.type_name == "float" { Number::F32 } else { Number::F64 };
    ColumnType::of_numbers(number, true)
}

fn is_packed(column: &Column) -> bool {
    matches!(column.encoding, Ok(Encoding { kind: Kind::Truncated | Kind::Quantized { .. }, .. }))
}

/// Whether two columns differ in nothing but the order of bytes and bits in their pages.
fn have_same_elements(one: &Column, two: &Column) -> bool {
    let (Ok(one), Ok(two)) = (&one.encoding, &two.encoding) else { return false };
    match (one.kind, two.kind) {
        _ if one == two => true,
        (Kind::Plain(one) | Kind::Split(one), Kind::Plain(two) | Kind::Split(two)) => one == two,
        (Kind::Index(_) | Kind::SplitIndex(_), Kind::Index(_) | Kind::SplitIndex(_)) => true,
        _ => false,
    }
}

/// Adds columns to a field, and to those that show it.
fn add_representation(schema: &mut Schema, field: usize, kinds: &[ColumnType]) -> Option<Vec<usize>> {
    let first = schema.fields[field].columns.first().filter(|first| first.len() == kinds.len())?.clone();
    let representation = u16::try_from(schema.fields[field].columns.len()).ok()?;
    let start = schema.columns.len();
    schema.columns.extend(kinds.iter().map(|kind| Column {
        kind: *kind,
        encoding: kind.encoding(),
        field,
        representation,
        first_element: 0,
        suppressed_before: false,
    }));
    let columns: Vec<usize> = (start..schema.columns.len()).collect();
    schema.fields[field].columns.push(columns.clone());
    for Alias { column: physical, field: shown } in schema.aliases.clone() {
        let Some(place) = first.iter().position(|column| *column == physical) else { continue };
        schema.aliases.push(Alias { column: columns[place], field: shown });
        let owner = &mut schema.fields[shown].columns;
        if owner.len() <= usize::from(representation) {
            owner.push(Vec::new());
        }
        owner[usize::from(representation)].push(columns[place]);
    }
    Some(columns)
}

/// How two fields of one name differ; None if they do not.
fn difference(one: &Field, two: &Field) -> Option<String> {
    if one.type_name != two.type_name {
        let name = if two.type_name.is_empty() { "no named type" } else { &two.type_name };
        return Some(format!("is of {name}"));
    }
    if one.role != two.role {
        return Some(format!("is stored as {}", role_name(two.role)));
    }
    if one.array_size != two.array_size {
        return Some(two.array_size.map_or("is no array".to_string(), |size| format!("has arrays of {size} elements")));
    }
    if (one.field_version, one.type_version) != (two.field_version, two.type_version) {
        return Some(format!("is of version {} ({})", two.type_version, two.field_version));
    }
    if one.later.flags != two.later.flags {
        return Some("is stored in a later way".to_string());
    }
    match (one.type_checksum, two.type_checksum) {
        (Some(left), Some(right)) if left != right => Some(format!("has the checksum {right:#x}")),
        _ => None,
    }
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::Plain => "a leaf",
        Role::Collection => "a collection",
        Role::Record => "a record",
        Role::Variant => "a variant",
        Role::Streamer => "objects of ROOT's streamers",
        Role::Unknown(_) => "something of a later format",
    }
}
