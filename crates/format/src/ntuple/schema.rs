//! The schema: fields and columns, from the header and the footer (sections "Header Envelope" and "Schema Extension
//! Record Frame").
//!
//! ```
//! # use branchline_format::compress::Decompressor;
//! # use branchline_format::file::loaded_bytes::LoadedBytes;
//! # use branchline_format::ntuple::envelope::{read_envelope, EnvelopeKind, Locator};
//! use branchline_format::ntuple::schema::{read_header, Column, Field, Schema};
//! use branchline_format::ntuple::number_types::ColumnType;
//! use branchline_format::ntuple::write::schema::write_header;
//! use branchline_format::numbers::number::Number;
//!
//! let mut schema = Schema::default();
//! schema.fields.push(Field {
//!     name: "x".to_string(),
//!     type_name: "std::int32_t".to_string(),
//!     columns: vec![vec![0]],
//!     ..Field::default()
//! });
//! schema.top.push(0);
//! let kind = ColumnType::of_numbers(Number::I32, false);
//! schema.columns.push(Column {
//!     kind,
//!     encoding: kind.encoding(),
//!     field: 0,
//!     representation: 0,
//!     first_element: 0,
//!     suppressed_before: false,
//! });
//! let written = write_header("events", "", &schema)?;
//! # let loaded = LoadedBytes::whole(written.plain.clone().into());
//! # let link = written.link(Locator { offset: 0, size: loaded.file_size() });
//! # let envelope = read_envelope(&loaded, &link, EnvelopeKind::Header, 0, &mut Decompressor::default()).unwrap();
//! let header = read_header(&envelope)?;
//! assert_eq!((header.name.as_str(), header.schema.columns), ("events", schema.columns));
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use std::sync::Arc;

use crate::classes::streamer::ClassInfos;
use crate::error::{FormatError, Result};
use crate::objects::Classes;

use super::encoding::Encoding;
use super::envelope::Envelope;
use super::number_types::{ColumnType, ValueRange};
use super::reader::Reader;

/// Minimum frame size of a field, to validate the number of fields.
const FIELD_SIZE_MIN: usize = 8 + 16 + 4 * 4;
/// Minimum frame size of a column, to validate the number of columns.
const COLUMN_SIZE_MIN: usize = 8 + 12;
/// Minimum frame size of an alias column, to validate the number of alias columns.
const ALIAS_SIZE_MIN: usize = 8 + 8;
/// Minimum frame size of extra type information, to validate the number of items.
const EXTRA_SIZE_MIN: usize = 8 + 12;
/// Flag of a field that is a fixed-size array.
pub(super) const REPETITIVE: u16 = 1;
/// Flag of a field that shows another field's columns.
pub(super) const PROJECTED: u16 = 2;
/// Flag of a field whose description includes the checksum of its class.
pub(super) const HAS_TYPE_CHECKSUM: u16 = 4;
/// Flag of a column that was added after earlier clusters had been written.
const DEFERRED: u16 = 1;
/// Flag of a column whose description includes a value range.
pub(super) const HAS_RANGE: u16 = 2;
/// Content code of extra type information that is a list of streamer infos.
const STREAMER_INFO: u32 = 0;

/// Structural role of a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// A leaf, or a wrapper around a single field.
    #[default]
    Plain,
    /// A collection whose elements are described by the only subfield.
    Collection,
    /// A record whose members are the subfields.
    Record,
    /// A variant whose alternatives are the subfields.
    Variant,
    /// An object written by its ROOT streamer.
    Streamer,
    /// A role from a later format version.
    Unknown(u16),
}

/// A field. Its index in [`Schema::fields`] identifies it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// C++ type.
    pub type_name: String,
    /// C++ type as the author wrote it, if that differs from `type_name`.
    pub type_alias: String,
    /// Description by the author.
    pub description: String,
    /// Version of the on-disk layout; 0 for all known layouts.
    pub field_version: u32,
    /// Version of the class.
    pub type_version: u32,
    /// Index of the parent field; None for a top-level field.
    pub parent: Option<usize>,
    /// Structural role.
    pub role: Role,
    /// Number of elements of a fixed-size array.
    pub array_size: Option<u64>,
    /// For a projected field, the index of the field whose columns it shows.
    pub source: Option<usize>,
    /// Checksum of the class, if the file has one.
    pub type_checksum: Option<u32>,
    /// Flags and bytes from later format versions.
    pub later: LaterParts,
    /// Indexes of the subfields, in order.
    pub children: Vec<usize>,
    /// Column indexes of each representation.
    pub columns: Vec<Vec<usize>>,
}

/// Extra type information, such as streamer infos.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeInfo {
    /// Content code: 0 for a list of streamer infos.
    pub content: u32,
    /// Version of the type.
    pub type_version: u32,
    /// Name of the type.
    pub type_name: Vec<u8>,
    /// The information in encoded form.
    pub bytes: Vec<u8>,
}

/// A column. Its index in [`Schema::columns`] identifies it.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The type of the elements.
    pub kind: ColumnType,
    /// The encoding of the elements; an error for column types of later format versions.
    pub encoding: std::result::Result<Encoding, String>,
    /// Index of the field.
    pub field: usize,
    /// Index of the field's representation that the column belongs to.
    pub representation: u16,
    /// Index of the first stored element. Earlier elements are zeros.
    pub first_element: u64,
    /// Whether the column is suppressed in clusters that were written before the column was added.
    pub suppressed_before: bool,
}

/// An alias column (section "Alias columns"): shows the pages of another field's column in a projected field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// Index of the column that has the pages.
    pub column: usize,
    /// Index of the projected field.
    pub field: usize,
}

/// Parts of a field's description from later format versions, preserved when the schema is rewritten.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaterParts {
    /// Unknown flags.
    pub flags: u16,
    /// Bytes after the last known part.
    pub bytes: Vec<u8>,
}

/// Fields and columns of an RNTuple.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// All fields.
    pub fields: Vec<Field>,
    /// All columns with pages of their own.
    pub columns: Vec<Column>,
    /// Indexes of the top-level fields, in order.
    pub top: Vec<usize>,
    /// Extra type information, such as streamer infos for streamed objects.
    pub type_infos: Vec<TypeInfo>,
    /// Alias columns, which projected fields use to show other fields' columns.
    pub aliases: Vec<Alias>,
}

/// The contents of the header envelope.
#[derive(Debug, Clone)]
pub struct Header {
    /// Name of the RNTuple.
    pub name: String,
    /// Description by the author.
    pub description: String,
    /// Name of the program that wrote the RNTuple.
    pub writer: String,
    /// Fields and columns that were known when writing began.
    pub schema: Schema,
}

/// Parse the header envelope.
pub fn read_header(envelope: &Envelope) -> Result<Header> {
    let mut reader = envelope.payload();
    let named = |error: FormatError| error.in_object("header envelope");
    read_header_payload(&mut reader).map_err(named)
}

fn read_header_payload(reader: &mut Reader<'_>) -> Result<Header> {
    reader.feature_flags()?;
    let (name, description, writer) = (reader.string()?, reader.string()?, reader.string()?);
    let mut schema = Schema::default();
    schema.extend(reader)?;
    Ok(Header { name, description, writer, schema })
}

impl Schema {
    /// Add the fields and columns of a schema description in the header or the footer.
    pub(super) fn extend(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        let (mut fields, count) = reader.list(FIELD_SIZE_MIN)?;
        for _ in 0..count {
            let number = self.fields.len();
            let field = read_field(&mut fields.record()?, number);
            self.fields.push(field.map_err(|error| error.in_object(format!("field {number}")))?);
        }
        let (mut columns, count) = reader.list(COLUMN_SIZE_MIN)?;
        for _ in 0..count {
            let number = self.columns.len();
            let column = read_column(&mut columns.record()?);
            self.columns.push(column.map_err(|error| error.in_object(format!("column {number}")))?);
        }
        let (mut aliases, count) = reader.list(ALIAS_SIZE_MIN)?;
        for _ in 0..count {
            let mut alias = aliases.record()?;
            self.aliases.push(Alias { column: alias.u32()? as usize, field: alias.u32()? as usize });
        }
        let (mut extras, count) = reader.list(EXTRA_SIZE_MIN)?;
        for _ in 0..count {
            let mut extra = extras.record()?;
            let (content, type_version) = (extra.u32()?, extra.u32()?);
            let (type_name, bytes) = (extra.string_bytes()?.to_vec(), extra.string_bytes()?.to_vec());
            self.type_infos.push(TypeInfo { content, type_version, type_name, bytes });
        }
        Ok(())
    }

    /// Connect fields to their parents and columns to their fields. Call this after all of them have been added.
    pub(super) fn connect(&mut self) -> Result<()> {
        let fields_count = self.fields.len();
        let unknown = |what: String| FormatError::damaged(0, format!("{what}, but there are {fields_count} fields"));
        for number in 0..fields_count {
            match self.fields[number].parent {
                None => self.top.push(number),
                Some(parent) if parent < fields_count => self.fields[parent].children.push(number),
                Some(parent) => return Err(unknown(format!("field {number} belongs to field {parent}"))),
            }
            if let Some(source) = self.fields[number].source.filter(|source| *source >= fields_count) {
                return Err(unknown(format!("field {number} is a projection of field {source}")));
            }
        }
        for number in 0..self.columns.len() {
            let (field, representation) = (self.columns[number].field, self.columns[number].representation);
            self.attach(number, field, representation)?;
        }
        for alias in self.aliases.clone() {
            let Some(column) = self.columns.get(alias.column) else {
                return Err(FormatError::damaged(0, format!("an alias refers to unknown column {}", alias.column)));
            };
            self.attach(alias.column, alias.field, column.representation)?;
        }
        for number in (0..fields_count).filter(|number| self.is_signed_character(*number)).collect::<Vec<_>>() {
            for column in self.fields[number].columns.clone().into_iter().flatten() {
                if let Ok(encoding) = &mut self.columns[column].encoding {
                    encoding.kind = encoding.kind.signed();
                }
            }
        }
        Ok(())
    }

    /// Whether a field holds the values of an enumeration whose underlying type is `signed char`. ROOT reports that
    /// type as `char`, although `char` fields are otherwise unsigned.
    pub(super) fn is_signed_character(&self, number: usize) -> bool {
        let field = &self.fields[number];
        let is_enumeration = |parent: usize| {
            let parent = &self.fields[parent];
            let has_only_numbers = parent.role == Role::Plain && parent.array_size.is_none();
            has_only_numbers && parent.columns.is_empty() && !parent.type_name.starts_with("std::")
        };
        field.type_name == "char" && field.parent.is_some_and(is_enumeration)
    }

    fn attach(&mut self, column: usize, field: usize, representation: u16) -> Result<()> {
        let wrong = |what: &str| FormatError::damaged(0, format!("column {column} belongs to {what}"));
        let Some(owner) = self.fields.get_mut(field) else {
            return Err(wrong(&format!("unknown field {field}")));
        };
        let representation = usize::from(representation);
        if representation > owner.columns.len() {
            return Err(wrong(&format!(
                "representation {representation} of field {field}, but an earlier representation is missing"
            )));
        }
        if representation == owner.columns.len() {
            owner.columns.push(Vec::new());
        }
        owner.columns[representation].push(column);
        Ok(())
    }

    /// The classes of streamed objects. Descriptions in the schema take precedence over the file's descriptions.
    pub fn classes(&self, of_file: &Arc<Classes>) -> Result<Arc<Classes>> {
        let mut lists = self.type_infos.iter().filter(|one| one.content == STREAMER_INFO).peekable();
        if lists.peek().is_none() {
            return Ok(Arc::clone(of_file));
        }
        let mut infos = ClassInfos::default();
        for list in lists {
            infos.add_pointed(&list.bytes).map_err(|error| error.in_object("streamer infos of the schema"))?;
        }
        infos.add_missing(of_file.infos());
        Ok(Arc::new(Classes::new(Arc::new(infos))))
    }

    /// Names of the enclosing fields and of the field, joined with dots, for error messages. The path is cut short if
    /// the parents form a cycle.
    pub fn path_of(&self, field: usize) -> String {
        let mut names = Vec::new();
        let mut next = Some(field);
        while let Some(one) = next.and_then(|number| self.fields.get(number)).filter(|_| names.len() < 64) {
            names.push(one.name.as_str());
            next = one.parent;
        }
        names.reverse();
        names.join(".")
    }
}

fn read_field(reader: &mut Reader<'_>, number: usize) -> Result<Field> {
    let (field_version, type_version) = (reader.u32()?, reader.u32()?);
    let parent = reader.u32()? as usize;
    let (role, flags) = (reader.u16()?, reader.u16()?);
    let role = match role {
        0 => Role::Plain,
        1 => Role::Collection,
        2 => Role::Record,
        3 => Role::Variant,
        4 => Role::Streamer,
        other => Role::Unknown(other),
    };
    let (name, type_name) = (reader.string()?, reader.string()?);
    let (type_alias, description) = (reader.string()?, reader.string()?);
    let array_size = (flags & REPETITIVE != 0).then(|| reader.u64()).transpose()?;
    let source = (flags & PROJECTED != 0).then(|| reader.u32()).transpose()?;
    let type_checksum = (flags & HAS_TYPE_CHECKSUM != 0).then(|| reader.u32()).transpose()?;
    let later = LaterParts {
        flags: flags & !(REPETITIVE | PROJECTED | HAS_TYPE_CHECKSUM),
        bytes: reader.take(reader.remaining() as u64)?.to_vec(),
    };
    Ok(Field {
        name,
        type_name,
        type_alias,
        description,
        field_version,
        type_version,
        parent: (parent != number).then_some(parent),
        role,
        array_size,
        source: source.map(|source| source as usize),
        type_checksum,
        later,
        children: Vec::new(),
        columns: Vec::new(),
    })
}

fn read_column(reader: &mut Reader<'_>) -> Result<Column> {
    let (number, bits) = (reader.u16()?, reader.u16()?);
    let field = reader.u32()? as usize;
    let (flags, representation) = (reader.u16()?, reader.u16()?);
    let first_element = if flags & DEFERRED != 0 { reader.i64()? } else { 0 };
    let range = if flags & HAS_RANGE != 0 { Some(ValueRange { min: reader.f64()?, max: reader.f64()? }) } else { None };
    let kind = ColumnType { number, bits, range };
    Ok(Column {
        kind,
        encoding: kind.encoding(),
        field,
        representation,
        first_element: first_element.unsigned_abs(),
        suppressed_before: first_element < 0,
    })
}
