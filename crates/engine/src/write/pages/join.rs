//! Joins the schemas of several RNTuples. The fields must be the same, but their columns may be stored differently. A
//! field then gets several representations.

use branchline_format::ntuple::encoding::{Encoding, Kind};
use branchline_format::ntuple::number_types::ColumnType;
use branchline_format::ntuple::schema::{Alias, Column, Field, Role, Schema, TypeInfo};
use branchline_format::numbers::number::Number;

/// For each column of an input, the column of the output.
pub(crate) type ColumnMap = Vec<usize>;

/// A difference between two RNTuples.
#[derive(Debug)]
pub(crate) struct Difference {
    /// The difference as the predicate of a sentence.
    pub(crate) what: String,
    /// Whether the difference is only a top-level field that one side lacks.
    pub(crate) is_lack: bool,
}

impl From<String> for Difference {
    fn from(what: String) -> Self {
        Self { what, is_lack: false }
    }
}

/// Returns the schema of the output for its first input. Fields that were added late become ordinary fields.
pub(crate) fn of_first(schema: &Schema) -> Schema {
    let mut own = schema.clone();
    for column in &mut own.columns {
        (column.first_element, column.suppressed_before) = (0, false);
    }
    own
}

/// Extends the schema of the output by representations of fields that only the input has, and returns the column map.
/// Returns an error if fields differ.
pub(crate) fn join(output: &mut Schema, input: &Schema) -> Result<ColumnMap, Difference> {
    let mut joiner = Joiner { output, input, columns: vec![usize::MAX; input.columns.len()] };
    let (ours, theirs) = (joiner.output.top.clone(), input.top.clone());
    let lack = joiner.fields(&ours, &theirs)?;
    if let Some(what) = lack {
        return Err(Difference { what, is_lack: true });
    }
    if let Some(lost) = joiner.columns.iter().position(|column| *column == usize::MAX) {
        return Err(format!("column {lost} belongs to no field with data").into());
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
                return Err("the classes of its streamed objects have different streamer infos".to_string().into())
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
    /// Joins fields by name. Returns the first field that one side lacks, if any.
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
            let what =
                other_shown.map_or("is not a projected field".to_string(), |other| format!("projects field {other}"));
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
                    there.or_else(|| add_representation(self.output, own, &kinds)).ok_or_else(|| {
                        format!("field {} has columns of an incompatible type", self.input.path_of(other))
                    })?
                }
            };
            for (column, known) in columns.iter().zip(known) {
                self.columns[*column] = known;
            }
        }
        Ok(())
    }

    /// Returns a representation of a field into which pages of these columns can be converted, if there is one.
    fn known(&self, own: usize, theirs: &[&Column]) -> Option<Vec<usize>> {
        let all = &self.output.fields[own].columns;
        let is = |columns: &&Vec<usize>, like: fn(&Column, &Column) -> bool| {
            let ours = columns.iter().map(|column| &self.output.columns[*column]);
            columns.len() == theirs.len() && ours.zip(theirs).all(|(one, two)| like(one, two))
        };
        let same = all.iter().find(|columns| is(columns, |one, two| one.kind == two.kind));
        // If only the encoding differs, pages are re-encoded, so that readers need only one encoding.
        let found = same.or_else(|| all.iter().find(|columns| is(columns, have_same_elements)));
        found.cloned()
    }

    /// Returns the column types for pages that fit no existing representation. The types are kept, except that packed
    /// numbers are expanded, because ROOT uses the bit width of the first representation for all representations.
    fn new_kinds(&self, own: usize, theirs: &[&Column]) -> Vec<ColumnType> {
        if theirs.iter().any(|column| is_packed(column)) {
            return vec![real_kind(&self.output.fields[own]); theirs.len()];
        }
        theirs.iter().map(|column| column.kind).collect()
    }
}

/// Returns the column type for unpacked numbers of a field.
pub(crate) fn real_kind(field: &Field) -> ColumnType {
    let number = if field.type_name == "float" { Number::F32 } else { Number::F64 };
    ColumnType::of_numbers(number, true)
}

fn is_packed(column: &Column) -> bool {
    matches!(column.encoding, Ok(Encoding { kind: Kind::Truncated | Kind::Quantized { .. }, .. }))
}

/// Whether two columns differ only in the order of bytes and bits in their pages.
fn have_same_elements(one: &Column, two: &Column) -> bool {
    let (Ok(one), Ok(two)) = (&one.encoding, &two.encoding) else { return false };
    match (one.kind, two.kind) {
        _ if one == two => true,
        (Kind::Plain(one) | Kind::Split(one), Kind::Plain(two) | Kind::Split(two)) => one == two,
        (Kind::Index(_) | Kind::SplitIndex(_), Kind::Index(_) | Kind::SplitIndex(_)) => true,
        _ => false,
    }
}

/// Adds a representation to a field, and to the projected fields that show it.
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

/// Returns the difference between two fields with the same name. Returns None if they are the same.
fn difference(one: &Field, two: &Field) -> Option<String> {
    if one.type_name != two.type_name {
        let name = if two.type_name.is_empty() { "no named type" } else { &two.type_name };
        return Some(format!("has type {name}"));
    }
    if one.role != two.role {
        return Some(format!("is stored as {}", role_name(two.role)));
    }
    if one.array_size != two.array_size {
        return Some(
            two.array_size.map_or("is not an array".to_string(), |size| format!("has arrays of {size} elements")),
        );
    }
    if (one.field_version, one.type_version) != (two.field_version, two.type_version) {
        return Some(format!("has version {} ({})", two.type_version, two.field_version));
    }
    if one.later.flags != two.later.flags {
        return Some("uses features of a later format version".to_string());
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
        Role::Unknown(_) => "a structure of a later format version",
    }
}
