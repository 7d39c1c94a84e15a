//! The structure of a field's entries, derived from the field tree and its columns (section "Mapping of C++ Types to
//! Fields and Columns").
//!
//! ```
//! use std::sync::Arc;
//!
//! use branchline_format::classes::streamer::ClassInfos;
//! use branchline_format::ntuple::form::{standalone_form, Form};
//! use branchline_format::ntuple::number_types::ColumnType;
//! use branchline_format::ntuple::schema::{Column, Field, Schema};
//! use branchline_format::numbers::number::Number;
//! use branchline_format::objects::Classes;
//! # let mut schema = Schema::default();
//! # schema.fields.push(Field {
//! #     name: "x".to_string(),
//! #     type_name: "std::int32_t".to_string(),
//! #     columns: vec![vec![0]],
//! #     ..Field::default()
//! # });
//! # schema.top.push(0);
//! # let kind = ColumnType::of_numbers(Number::I32, false);
//! # schema.columns.push(Column {
//! #     kind,
//! #     encoding: kind.encoding(),
//! #     field: 0,
//! #     representation: 0,
//! #     first_element: 0,
//! #     suppressed_before: false,
//! # });
//! // A schema with one field of type std::int32_t, stored in column 0.
//! let classes = Classes::new(Arc::new(ClassInfos::default()));
//! let form = standalone_form(&schema, &Arc::new(classes), 0)?;
//! assert_eq!(form, Form::Number { columns: vec![0], number: Number::I32 });
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::sync::Arc;

use crate::column::Column;
use crate::error::{FormatError, Result};
use crate::numbers::number::Number;
use crate::objects::{Classes, Program};

use super::convert::becomes;
use super::encoding::{Encoding, Kind};
use super::number_types::number_of_type;
use super::schema::{Role, Schema};

/// Maximum nesting depth of fields. Compilers do not accept more deeply nested C++ types.
const DEPTH_MAX: usize = 64;
/// Maximum number of alternatives per variant.
const ALTERNATIVES_MAX: usize = 125;
/// Maximum number of elements of a fixed-size array.
const ARRAY_SIZE_MAX: u64 = 1 << 40;

/// The structure of a field's entries or of a collection's elements. `columns` has one item per representation of the
/// field.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A number.
    Number {
        /// For each representation, the column of the numbers.
        columns: Vec<usize>,
        /// Type of the decoded values.
        number: Number,
    },
    /// A string.
    Text {
        /// For each representation, the columns of the string ends and of the characters.
        columns: Vec<[usize; 2]>,
    },
    /// An object in the format of its ROOT streamer.
    Streamed {
        /// For each representation, the columns of the object ends and of the bytes.
        columns: Vec<[usize; 2]>,
        /// The program that reads the object.
        program: Program,
    },
    /// The number of elements of another field's collection.
    Cardinality {
        /// For each representation, the column of the collection ends.
        columns: Vec<usize>,
    },
    /// A fixed-size array.
    Regular {
        /// Number of elements.
        size: usize,
        /// Form of an element.
        content: Box<Form>,
    },
    /// A variable-size collection.
    List {
        /// For each representation, the column of the collection ends.
        columns: Vec<usize>,
        /// Form of an element.
        content: Box<Form>,
    },
    /// An optional element, stored as a collection of at most one element.
    Option {
        /// For each representation, the column of the collection ends.
        columns: Vec<usize>,
        /// Form of the element.
        content: Box<Form>,
    },
    /// A record with named members, including inherited members.
    Record {
        /// Name of the class, if any.
        class_name: Option<String>,
        /// Name and form of each member.
        members: Vec<(String, Form)>,
    },
    /// A pair or tuple.
    Tuple(Vec<Form>),
    /// One of several alternatives.
    Union {
        /// For each representation, the column of indexes and tags.
        columns: Vec<usize>,
        /// The alternatives. Tag 1 selects the first alternative; tag 0 means no value.
        contents: Vec<Form>,
    },
}

/// Description of elements that are numbers or fixed-size arrays of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedNumbers {
    /// Type of the numbers.
    pub number: Number,
    /// Dimensions of the arrays, outermost first; empty for single numbers.
    pub dimensions: Vec<usize>,
}

/// The form of a field that is read on its own, with all its subfields. The form is wrapped into the collections that
/// enclose the field. `classes` describes the objects written by streamers.
pub fn standalone_form(schema: &Schema, classes: &Arc<Classes>, field: usize) -> Result<Form> {
    let mut form = form_within(schema, classes, field, 0)?;
    let mut next = schema.fields[field].parent;
    for _ in 0..DEPTH_MAX {
        let Some(number) = next else { return Ok(form) };
        let parent = &schema.fields[number];
        match (parent.role, array_size(schema, number)?) {
            (Role::Collection, _) => form = collection(schema, number, form)?,
            (Role::Plain, Some(size)) => form = Form::Regular { size, content: Box::new(form) },
            (Role::Plain | Role::Record, _) => {}
            (Role::Variant | Role::Streamer | Role::Unknown(_), _) => {
                return Err(FormatError::unsupported(
                    "it is an alternative of a variant; read the whole variant instead",
                ))
            }
        }
        next = parent.parent;
    }
    Err(FormatError::damaged(0, "its fields form a loop or are nested too deeply"))
}

fn form_within(schema: &Schema, classes: &Arc<Classes>, number: usize, depth: usize) -> Result<Form> {
    if depth > DEPTH_MAX {
        return Err(FormatError::damaged(0, "its fields form a loop or are nested too deeply"));
    }
    let field = &schema.fields[number];
    if field.field_version != 0 {
        let message = format!("{} has unsupported field version {}", schema.path_of(number), field.field_version);
        return Err(FormatError::unsupported(message));
    }
    let child = |child: usize| form_within(schema, classes, child, depth + 1);
    match field.role {
        Role::Plain => match (array_size(schema, number)?, field.children.as_slice()) {
            (Some(size), [only]) => Ok(Form::Regular { size, content: Box::new(child(*only)?) }),
            (Some(size), []) => Ok(Form::Regular { size, content: Box::new(number_form(schema, number)?) }),
            (None, [only]) if field.columns.is_empty() => child(*only),
            (None, []) => leaf(schema, number),
            _ => Err(unknown_structure(schema, number)),
        },
        Role::Collection => match field.children.as_slice() {
            [only] => collection(schema, number, child(*only)?),
            _ => Err(unknown_structure(schema, number)),
        },
        Role::Record => record(schema, classes, number, depth),
        Role::Variant if (1..=ALTERNATIVES_MAX).contains(&field.children.len()) => {
            let columns = switch_columns(schema, number)?;
            let contents = field.children.iter().map(|one| child(*one)).collect::<Result<_>>()?;
            Ok(Form::Union { columns, contents })
        }
        Role::Streamer => streamed(schema, classes, number),
        Role::Variant | Role::Unknown(_) => Err(unknown_structure(schema, number)),
    }
}

fn unknown_structure(schema: &Schema, number: usize) -> FormatError {
    let field = &schema.fields[number];
    let columns: usize = field.columns.iter().map(Vec::len).sum();
    FormatError::unsupported(format!(
        "{} ({:?} field with {} subfields and {columns} columns) has a structure that is not supported",
        schema.path_of(number),
        field.role,
        field.children.len(),
    ))
}

fn array_size(schema: &Schema, number: usize) -> Result<Option<usize>> {
    match schema.fields[number].array_size {
        None => Ok(None),
        Some(0) => Err(FormatError::unsupported(format!(
            "{} is an array of size 0, which is not supported",
            schema.path_of(number)
        ))),
        Some(size) if size <= ARRAY_SIZE_MAX => Ok(Some(size as usize)),
        Some(size) => {
            let message = format!("{} is an array with an impossible size of {size} elements", schema.path_of(number));
            Err(FormatError::damaged(0, message))
        }
    }
}

/// The columns of each representation. Fails unless each representation has `COUNT` columns of known types.
fn columns_of<const COUNT: usize>(schema: &Schema, number: usize) -> Result<Vec<[usize; COUNT]>> {
    let field = &schema.fields[number];
    for column in field.columns.iter().flatten() {
        if let Err(reason) = &schema.columns[*column].encoding {
            return Err(FormatError::unsupported(format!("{}: {reason}", schema.path_of(number))));
        }
    }
    let all: Option<Vec<[usize; COUNT]>> = field.columns.iter().map(|one| one.as_slice().try_into().ok()).collect();
    all.filter(|all| !all.is_empty()).ok_or_else(|| unknown_structure(schema, number))
}

fn single_columns(schema: &Schema, number: usize) -> Result<Vec<usize>> {
    Ok(columns_of::<1>(schema, number)?.into_iter().map(|[only]| only).collect())
}

fn index_columns(schema: &Schema, number: usize) -> Result<Vec<usize>> {
    columns_with(schema, number, Encoding::is_index)
}

fn switch_columns(schema: &Schema, number: usize) -> Result<Vec<usize>> {
    columns_with(schema, number, |encoding| encoding.kind == Kind::Switch)
}

/// The single column of each representation. Fails unless `is_right` accepts the encoding of every column.
fn columns_with(schema: &Schema, number: usize, is_right: fn(&Encoding) -> bool) -> Result<Vec<usize>> {
    let columns = single_columns(schema, number)?;
    let is_right = |column: &usize| schema.columns[*column].encoding.as_ref().is_ok_and(is_right);
    match columns.iter().all(is_right) {
        true => Ok(columns),
        false => Err(unknown_structure(schema, number)),
    }
}

fn collection(schema: &Schema, number: usize, content: Form) -> Result<Form> {
    let columns = index_columns(schema, number)?;
    let content = Box::new(content);
    let type_name = schema.fields[number].type_name.as_str();
    let may_be_missing = ["std::optional<", "std::unique_ptr<"].iter().any(|prefix| type_name.starts_with(prefix));
    Ok(if may_be_missing { Form::Option { columns, content } } else { Form::List { columns, content } })
}

fn leaf(schema: &Schema, number: usize) -> Result<Form> {
    let field = &schema.fields[number];
    if field.type_name.starts_with("ROOT::RNTupleCardinality<") {
        return Ok(Form::Cardinality { columns: index_columns(schema, number)? });
    }
    if field.type_name == "std::string" {
        return Ok(Form::Text { columns: byte_columns(schema, number)? });
    }
    number_form(schema, number)
}

/// For each representation, the column of ends and the column of bytes.
fn byte_columns(schema: &Schema, number: usize) -> Result<Vec<[usize; 2]>> {
    let columns = columns_of::<2>(schema, number)?;
    let encoding = |column: usize| schema.columns[column].encoding.as_ref().ok();
    let is_byte = |one: &Encoding| matches!(one.kind, Kind::Plain(Number::U8 | Number::I8));
    let are_bytes = |[ends, bytes]: &[usize; 2]| {
        encoding(*ends).is_some_and(Encoding::is_index) && encoding(*bytes).is_some_and(is_byte)
    };
    match columns.iter().all(are_bytes) {
        true => Ok(columns),
        false => Err(unknown_structure(schema, number)),
    }
}

fn streamed(schema: &Schema, classes: &Arc<Classes>, number: usize) -> Result<Form> {
    let class_name = &schema.fields[number].type_name;
    let named = |error: FormatError| {
        let path = schema.path_of(number);
        error.in_object(format!("{path} (streamed class {class_name})"))
    };
    let program = Program::of_class(classes, class_name).map_err(named)?;
    Ok(Form::Streamed { columns: byte_columns(schema, number)?, program })
}

fn number_form(schema: &Schema, number: usize) -> Result<Form> {
    let field = &schema.fields[number];
    let columns = single_columns(schema, number)?;
    let natural = |column: &usize| schema.columns[*column].encoding.as_ref().ok().and_then(|one| one.natural());
    let stored: Option<Vec<Number>> = columns.iter().map(natural).collect();
    let stored = stored.ok_or_else(|| unknown_structure(schema, number))?;
    let wanted = match number_of_type(&field.type_name) {
        // Read the field as half precision if all representations store half precision, because no information is lost.
        Some(Number::F32) if stored.iter().all(|one| *one == Number::F16) => Number::F16,
        Some(_) if schema.is_signed_character(number) => Number::I8,
        Some(wanted) => wanted,
        None => stored[0],
    };
    if stored.iter().all(|one| becomes(*one, wanted)) {
        Ok(Form::Number { columns, number: wanted })
    } else {
        Err(unknown_structure(schema, number))
    }
}

fn record(schema: &Schema, classes: &Arc<Classes>, number: usize, depth: usize) -> Result<Form> {
    let members = super::names::members_of(schema, number);
    // A record without members becomes an empty tuple, as in uproot.
    let is_tuple = members.is_empty() || super::names::is_tuple(schema, number);
    let forms = members.into_iter().map(|(name, member)| Ok((name, form_within(schema, classes, member, depth + 1)?)));
    let members = forms.collect::<Result<Vec<_>>>()?;
    if is_tuple {
        return Ok(Form::Tuple(members.into_iter().map(|(_, form)| form).collect()));
    }
    Ok(Form::Record { class_name: super::names::class_name(schema, number), members })
}

impl Form {
    /// Create a column without entries.
    pub fn empty(&self) -> Column {
        match self {
            Self::Number { number, .. } => Column::Flat { dtype: number.dtype(), values: Vec::new() },
            Self::Text { .. } => Column::Text { offsets: vec![0], bytes: Vec::new() },
            Self::Streamed { program, .. } => program.empty(),
            Self::Cardinality { .. } => Column::Flat { dtype: Number::I64.dtype(), values: Vec::new() },
            Self::Regular { size, content } => Column::Regular { size: *size, content: Box::new(content.empty()) },
            Self::List { content, .. } => Column::List { offsets: vec![0], content: Box::new(content.empty()) },
            Self::Option { content, .. } => Column::Option { valid: Vec::new(), content: Box::new(content.empty()) },
            Self::Record { class_name, members } => Column::Record {
                class_name: class_name.clone(),
                count: 0,
                members: members.iter().map(|(name, member)| (name.clone(), member.empty())).collect(),
            },
            Self::Tuple(items) => Column::Tuple { count: 0, items: items.iter().map(Self::empty).collect() },
            Self::Union { contents, .. } => {
                let none = Column::Flat { dtype: "unknown", values: Vec::new() };
                let contents = std::iter::once(none).chain(contents.iter().map(Self::empty));
                Column::Union { tags: Vec::new(), contents: contents.map(optional).collect() }
            }
        }
    }

    /// Number type and dimensions, if the field holds numbers or (nested) fixed-size arrays of numbers; None for other
    /// fields.
    pub fn fixed(&self) -> Option<FixedNumbers> {
        match self {
            Self::Number { number, .. } => Some(FixedNumbers { number: *number, dimensions: Vec::new() }),
            Self::Regular { size, content } => {
                let mut numbers = content.fixed()?;
                numbers.dimensions.insert(0, *size);
                Some(numbers)
            }
            Self::Text { .. }
            | Self::Streamed { .. }
            | Self::Cardinality { .. }
            | Self::List { .. }
            | Self::Option { .. }
            | Self::Record { .. }
            | Self::Tuple(_)
            | Self::Union { .. } => None,
        }
    }

    /// Number type and dimensions of the list elements, if the field is a list of numbers or of fixed-size arrays of
    /// numbers; None for other fields.
    pub fn run(&self) -> Option<FixedNumbers> {
        match self {
            Self::List { content, .. } => content.fixed(),
            Self::Number { .. }
            | Self::Text { .. }
            | Self::Streamed { .. }
            | Self::Cardinality { .. }
            | Self::Regular { .. }
            | Self::Option { .. }
            | Self::Record { .. }
            | Self::Tuple(_)
            | Self::Union { .. } => None,
        }
    }

    /// Call `visit` with each column of all representations.
    pub fn each_column(&self, visit: &mut impl FnMut(usize)) {
        match self {
            Self::Number { columns, .. } | Self::Cardinality { columns } => columns.iter().for_each(|one| visit(*one)),
            Self::Text { columns } | Self::Streamed { columns, .. } => {
                columns.iter().flatten().for_each(|one| visit(*one))
            }
            Self::Regular { content, .. } => content.each_column(visit),
            Self::List { columns, content } | Self::Option { columns, content } => {
                columns.iter().for_each(|one| visit(*one));
                content.each_column(visit);
            }
            Self::Record { members, .. } => members.iter().for_each(|(_, member)| member.each_column(visit)),
            Self::Tuple(items) => items.iter().for_each(|item| item.each_column(visit)),
            Self::Union { columns, contents } => {
                columns.iter().for_each(|one| visit(*one));
                contents.iter().for_each(|content| content.each_column(visit));
            }
        }
    }
}

/// Make a union content optional. In a union with missing values, Awkward Array requires this for all contents.
pub(super) fn optional(content: Column) -> Column {
    match content {
        Column::Option { .. } | Column::Union { .. } => content,
        other => Column::Option { valid: Vec::new(), content: Box::new(other) },
    }
}

#[cfg(test)]
mod tests {
    use super::super::number_types::ColumnType;
    use super::super::schema::{Column, Field};
    use super::*;
    use crate::error::ErrorKind;

    fn field(name: &str, parent: Option<usize>, array_size: Option<u64>) -> Field {
        Field {
            name: name.to_string(),
            type_name: String::new(),
            type_alias: String::new(),
            description: String::new(),
            field_version: 0,
            type_version: 0,
            parent,
            role: Role::Plain,
            array_size,
            source: None,
            type_checksum: None,
            later: Default::default(),
            children: Vec::new(),
            columns: Vec::new(),
        }
    }

    #[test]
    fn arrays_of_no_elements_are_refused_by_name() {
        // Awkward Array could not derive the number of arrays from a record without members.
        let fields = vec![field("empty", None, Some(0)), field("_0", Some(0), None)];
        let mut schema = Schema { fields, ..Schema::default() };
        schema.fields[0].children = vec![1];
        schema.fields[1].columns = vec![vec![0]];
        let kind = ColumnType { number: 0x0c, bits: 32, range: None };
        let encoding = kind.encoding();
        schema.columns =
            vec![Column { kind, encoding, field: 1, representation: 0, first_element: 0, suppressed_before: false }];
        let classes = Arc::new(Classes::new(Arc::default()));
        for one in [0, 1] {
            let error = standalone_form(&schema, &classes, one).unwrap_err();
            assert_eq!(error, FormatError::unsupported("empty is an array of size 0, which is not supported"));
        }
        schema.fields[0].array_size = Some(u64::MAX);
        assert_eq!(standalone_form(&schema, &classes, 0).unwrap_err().kind, ErrorKind::Damaged);
        schema.fields[0].array_size = Some(3);
        assert!(matches!(standalone_form(&schema, &classes, 0), Ok(Form::Regular { size: 3, .. })));
    }
}
