//! Maps values, given as columns of the engine, to RNTuple fields and columns with C++ types. Follows the section
//! "Mapping of C++ Types to Fields and Columns" of the RNTuple specification.

use branchline_format::ntuple::names::generated_class_name;
use branchline_format::ntuple::number_types::{type_of_number, ColumnType};
use branchline_format::ntuple::schema::{Alias, Column, Field, Role, Schema};
use branchline_format::numbers::number::Number;

use crate::write::columns::writer::{NamedColumn, Values};

/// A projected field, which shows a part of a collection: one member of its elements, or their number.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The name of the projected field.
    pub name: String,
    /// The name of the top-level collection.
    pub collection: String,
    /// The member of the collection's elements; None for the number of elements.
    pub member: Option<String>,
}

/// The columns that receive the values of a field.
#[derive(Debug, Clone)]
pub(crate) enum FieldSink {
    Number {
        column: usize,
        number: Number,
    },
    Text {
        ends: usize,
        bytes: usize,
    },
    Regular {
        size: usize,
        content: Box<FieldSink>,
    },
    /// A list, or an optional value.
    List {
        ends: usize,
        content: Box<FieldSink>,
    },
    Option {
        ends: usize,
        content: Box<FieldSink>,
    },
    Record(Vec<(String, FieldSink)>),
    Tuple(Vec<FieldSink>),
    /// A variant.
    Union {
        switch: usize,
        alternatives: Vec<FieldSink>,
    },
}

/// The reason why values cannot become a field.
pub(crate) type Reason = String;

/// Whether records within a field need a class name. ROOT can read records, and collections of records, without a type
/// name, but it reads the element type of a fixed-size array only from the array's type name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    Unnamed,
    Named,
}

/// Builds a schema.
pub(crate) struct SchemaBuilder {
    pub(crate) schema: Schema,
    /// Whether numbers are stored in split encoding, which groups the bytes of the same significance and compresses
    /// better.
    is_split: bool,
}

impl SchemaBuilder {
    pub(crate) fn new(is_split: bool) -> Self {
        Self::of(Schema::default(), is_split)
    }

    /// Creates a builder that extends an existing schema.
    pub(crate) fn of(schema: Schema, is_split: bool) -> Self {
        Self { schema, is_split }
    }

    /// Adds a top-level field for a column.
    pub(crate) fn add(&mut self, column: &NamedColumn<'_>) -> Result<FieldSink, Reason> {
        let name = &column.name;
        let (number, sink) = self.described(name, None, column).map_err(|reason| format!("{name}: {reason}"))?;
        self.schema.top.push(number);
        Ok(sink)
    }

    /// Adds a field for a column, either at the top level or as a member of the record that precedes the last dot in
    /// the column's name.
    pub(crate) fn add_at(&mut self, column: &NamedColumn<'_>) -> Result<FieldSink, Reason> {
        let Some((record, name)) = column.name.rsplit_once('.') else { return self.add(column) };
        let is_plain = |number: usize| {
            self.schema.fields[number].role == Role::Record && self.schema.fields[number].type_name.is_empty()
        };
        // A record is the only possible parent: in a collection, the number of values would differ from the number of
        // entries.
        let is_record =
            |number: &usize| std::iter::successors(Some(*number), |one| self.schema.fields[*one].parent).all(is_plain);
        let mut fields = 0..self.schema.fields.len();
        let parent = fields.find(|number| self.schema.path_of(*number) == record).filter(is_record);
        let parent = parent.ok_or_else(|| format!("members cannot be added to {record}"))?;
        Ok(self.described(name, Some(parent), column)?.1)
    }

    /// Adds the field of a column, with its descriptions.
    fn described(
        &mut self,
        name: &str,
        parent: Option<usize>,
        column: &NamedColumn<'_>,
    ) -> Result<(usize, FieldSink), Reason> {
        let (number, sink) = self.field(name, parent, &column.values, Records::Unnamed)?;
        for (path, description) in &column.descriptions {
            let added = number..self.schema.fields.len();
            if let Some(field) = added.into_iter().find(|field| self.schema.path_of(*field) == *path) {
                self.schema.fields[field].description = description.clone();
            }
        }
        Ok((number, sink))
    }

    fn field(
        &mut self,
        name: &str,
        parent: Option<usize>,
        values: &Values<'_>,
        records: Records,
    ) -> Result<(usize, FieldSink), Reason> {
        let number = self.new_field(name, parent);
        let sink = match values {
            Values::Flat { dtype: "unknown", .. } => {
                return Err("a field cannot store values of unknown type (none are given)".to_string());
            }
            Values::Flat { dtype, .. } => {
                let kind =
                    Number::of_dtype(dtype).ok_or_else(|| format!("a field cannot store numbers of type {dtype}"))?;
                self.schema.fields[number].type_name = type_of_number(kind).to_string();
                let column = self.column(number, ColumnType::of_numbers(kind, self.is_split));
                FieldSink::Number { column, number: kind }
            }
            Values::Text { .. } => {
                self.schema.fields[number].type_name = "std::string".to_string();
                let ends = self.column(number, ColumnType::of_ends(self.is_split));
                FieldSink::Text { ends, bytes: self.column(number, ColumnType::CHARACTERS) }
            }
            Values::Regular { size, content } => self.regular(number, *size, content)?,
            Values::List { content, .. } => self.collection(number, content, "std::vector", records)?,
            Values::Option { content, .. } => self.collection(number, content, "std::optional", records)?,
            Values::Record { members, .. } => {
                self.schema.fields[number].role = Role::Record;
                self.name_record(number, records);
                let mut sinks = Vec::with_capacity(members.len());
                for ((name, member), field) in members.iter().zip(field_names(members)) {
                    sinks.push((name.clone(), self.field(&field, Some(number), member, records)?.1));
                }
                FieldSink::Record(sinks)
            }
            Values::Tuple { items, .. } => self.tuple(number, items, records)?,
            Values::Union { contents, .. } => self.variant(number, contents)?,
        };
        Ok((number, sink))
    }

    fn regular(&mut self, number: usize, size: usize, content: &Values<'_>) -> Result<FieldSink, Reason> {
        if size == 0 {
            return Err("a field cannot store arrays of length zero".to_string());
        }
        let (child, content) = self.field("_0", Some(number), content, Records::Named)?;
        let item = self.schema.fields[child].type_name.clone();
        let field = &mut self.schema.fields[number];
        field.type_name = format!("std::array<{item},{size}>");
        field.array_size = Some(size as u64);
        Ok(FieldSink::Regular { size, content: Box::new(content) })
    }

    /// Gives a record a class name derived from its path, if the record needs one.
    fn name_record(&mut self, number: usize, records: Records) {
        if records == Records::Named {
            let class_name = generated_class_name(&self.schema, number);
            self.schema.fields[number].type_name = class_name;
        }
    }

    fn collection(
        &mut self,
        number: usize,
        content: &Values<'_>,
        template: &str,
        records: Records,
    ) -> Result<FieldSink, Reason> {
        self.schema.fields[number].role = Role::Collection;
        let ends = self.column(number, ColumnType::of_ends(self.is_split));
        let (child, content) = self.field("_0", Some(number), content, records)?;
        let item = self.schema.fields[child].type_name.clone();
        let content = Box::new(content);
        // If the items are records without a class, the collection has no type name either.
        if !item.is_empty() {
            self.schema.fields[number].type_name = format!("{template}<{item}>");
        }
        Ok(if template == "std::optional" {
            FieldSink::Option { ends, content }
        } else {
            FieldSink::List { ends, content }
        })
    }

    fn tuple(&mut self, number: usize, items: &[Values<'_>], records: Records) -> Result<FieldSink, Reason> {
        self.schema.fields[number].role = Role::Record;
        // ROOT cannot instantiate a std::pair or std::tuple whose items have a class without a dictionary.
        let is_record = items.is_empty() || items.iter().any(needs_class);
        if is_record {
            self.name_record(number, records);
        }
        let (mut sinks, mut names) = (Vec::with_capacity(items.len()), Vec::with_capacity(items.len()));
        for (place, item) in items.iter().enumerate() {
            let (child, sink) = self.field(&format!("_{place}"), Some(number), item, records)?;
            names.push(self.schema.fields[child].type_name.clone());
            sinks.push(sink);
        }
        if !is_record {
            let template = if names.len() == 2 { "std::pair" } else { "std::tuple" };
            self.schema.fields[number].type_name = format!("{template}<{}>", names.join(","));
        }
        Ok(FieldSink::Tuple(sinks))
    }

    /// Adds a variant. `contents[0]` stands for missing values and gets no alternative.
    fn variant(&mut self, number: usize, contents: &[Values<'_>]) -> Result<FieldSink, Reason> {
        if contents.iter().any(needs_class) {
            return Err("a field cannot store variants of records, as ROOT cannot open such an RNTuple".to_string());
        }
        self.schema.fields[number].role = Role::Variant;
        let switch = self.column(number, ColumnType::SWITCHES);
        let (mut alternatives, mut names) = (Vec::new(), Vec::new());
        for (place, content) in contents.iter().skip(1).enumerate() {
            let (child, sink) = self.field(&format!("_{place}"), Some(number), content, Records::Unnamed)?;
            let name = self.schema.fields[child].type_name.clone();
            if names.contains(&name) {
                return Err(format!("a field cannot store a variant with {name} twice"));
            }
            names.push(name);
            alternatives.push(sink);
        }
        self.schema.fields[number].type_name = format!("std::variant<{}>", names.join(","));
        Ok(FieldSink::Union { switch, alternatives })
    }

    /// Adds a projected field, as ROOT's importer does for arrays that have the same counter.
    pub(crate) fn show(&mut self, shown: &Shown) -> Result<(), Reason> {
        let missing = || format!("{}: collection {} does not exist", shown.name, shown.collection);
        let find = |schema: &Schema, fields: &[usize], name: &str| {
            fields.iter().copied().find(|field| schema.fields[*field].name == name)
        };
        let schema = &self.schema;
        let source = find(schema, &schema.top, &shown.collection).ok_or_else(missing)?;
        let ends = *schema.fields[source].columns.first().and_then(|columns| columns.first()).ok_or_else(missing)?;
        let Some(member) = &shown.member else {
            let number = self.new_field(&shown.name, None);
            let field = &mut self.schema.fields[number];
            field.type_name = "ROOT::RNTupleCardinality<std::uint32_t>".to_string();
            self.alias(number, source, ends);
            self.schema.top.push(number);
            return Ok(());
        };
        let record = *schema.fields[source].children.first().ok_or_else(missing)?;
        let item = find(schema, &schema.fields[record].children, member).ok_or_else(missing)?;
        let values = schema.fields[item].columns.first().and_then(|columns| columns.first()).copied();
        let values = values.ok_or_else(missing)?;
        let item_type = schema.fields[item].type_name.clone();
        let number = self.new_field(&shown.name, None);
        let field = &mut self.schema.fields[number];
        field.type_name = format!("ROOT::VecOps::RVec<{item_type}>");
        field.role = Role::Collection;
        self.alias(number, source, ends);
        let child = self.new_field("_0", Some(number));
        self.schema.fields[child].type_name = item_type;
        self.alias(child, item, values);
        self.schema.top.push(number);
        Ok(())
    }

    fn alias(&mut self, field: usize, source: usize, column: usize) {
        self.schema.fields[field].source = Some(source);
        self.schema.fields[field].columns = vec![vec![column]];
        self.schema.aliases.push(Alias { column, field });
    }

    fn new_field(&mut self, name: &str, parent: Option<usize>) -> usize {
        let number = self.schema.fields.len();
        self.schema.fields.push(Field {
            name: name.to_string(),
            type_name: String::new(),
            type_alias: String::new(),
            description: String::new(),
            field_version: 0,
            type_version: 0,
            parent,
            role: Role::Plain,
            array_size: None,
            source: None,
            type_checksum: None,
            later: Default::default(),
            children: Vec::new(),
            columns: Vec::new(),
        });
        if let Some(parent) = parent {
            self.schema.fields[parent].children.push(number);
        }
        number
    }

    fn column(&mut self, field: usize, kind: ColumnType) -> usize {
        let column = self.schema.columns.len();
        let encoding = kind.encoding();
        let (first_element, suppressed_before) = (0, false);
        self.schema.columns.push(Column { kind, encoding, field, representation: 0, first_element, suppressed_before });
        match self.schema.fields[field].columns.first_mut() {
            Some(columns) => columns.push(column),
            None => self.schema.fields[field].columns.push(vec![column]),
        }
        column
    }
}

/// Whether values are, or contain, records that only a class can represent in C++.
fn needs_class(values: &Values<'_>) -> bool {
    match values {
        Values::Record { .. } => true,
        Values::Flat { .. } | Values::Text { .. } => false,
        Values::Regular { content, .. } | Values::List { content, .. } | Values::Option { content, .. } => {
            needs_class(content)
        }
        Values::Tuple { items, .. } => items.is_empty() || items.iter().any(needs_class),
        Values::Union { contents, .. } => contents.iter().any(needs_class),
    }
}

/// Returns distinct member names that are valid in ROOT.
fn field_names(members: &[(String, Values<'_>)]) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(members.len());
    for (name, _) in members {
        let is_free = |one: char| !(matches!(one, '.' | '/' | '\\') || one.is_whitespace() || one.is_control());
        let clean: String = name.chars().map(|one| if is_free(one) { one } else { '_' }).collect();
        let mut free = clean.clone();
        let mut number = 2;
        while free.is_empty() || names.contains(&free) {
            free = format!("{clean}_{number}");
            number += 1;
        }
        names.push(free);
    }
    names
}
