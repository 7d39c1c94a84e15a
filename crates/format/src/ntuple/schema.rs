//! The schema: fields and columns of header and footer (sections "Header Envelope" and "Schema Extension Record
//! Frame").

use std::sync::Arc;

use crate::classes::streamer::ClassInfos;
use crate::error::{FormatError, Result};
use crate::objects::Classes;

use super::encoding::Encoding;
use super::envelope::Envelope;
use super::number_types::{ColumnType, ValueRange};
use super::reader::Reader;

/// Bytes of the smallest frames of fields, columns, aliases and extra type information. Counts of lists are checked
/// with them.
const FIELD_SIZE_MIN: usize = 8 + 16 + 4 * 4;
const COLUMN_SIZE_MIN: usize = 8 + 12;
const ALIAS_SIZE_MIN: usize = 8 + 8;
const EXTRA_SIZE_MIN: usize = 8 + 12;
/// Flags of a field.
pub(super) const REPETITIVE: u16 = 1;
pub(super) const PROJECTED: u16 = 2;
pub(super) const HAS_TYPE_CHECKSUM: u16 = 4;
/// Flags of a column.
const DEFERRED: u16 = 1;
pub(super) const HAS_RANGE: u16 = 2;
/// Extra type information that is a list of streamer infos.
const STREAMER_INFO: u32 = 0;

/// What a field is in the tree of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A leaf, or a wrapper of one field.
    Plain,
    /// A collection of its subfield.
    Collection,
    /// A record of its subfields.
    Record,
    /// One of its subfields.
    Variant,
    /// Objects written by ROOT's streamers.
    Streamer,
    /// Of a later version of the format.
    Unknown(u16),
}

/// A field; its number is its place in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// C++ type.
    pub type_name: String,
    /// C++ type as its author called it, if that is another.
    pub type_alias: String,
    /// Description by its author.
    pub description: String,
    /// Version of the way in which it is stored: 0 for all that is known.
    pub field_version: u32,
    /// Version of its class.
    pub type_version: u32,
    /// Number of the field that it belongs to; None for a field at the top.
    pub parent: Option<usize>,
    /// What it is.
    pub role: Role,
    /// Elements of a fixed-size array.
    pub array_size: Option<u64>,
    /// The field whose columns it shows in another way.
    pub source: Option<usize>,
    /// Checksum of its class.
    pub type_checksum: Option<u32>,
    /// Flags and bytes of later versions of the format.
    pub later: LaterParts,
    /// Fields that belong to it, in order.
    pub children: Vec<usize>,
    /// Numbers of its columns, for each of its representations.
    pub columns: Vec<Vec<usize>>,
}

/// What the schema records of a type in addition to its fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeInfo {
    /// What it is: 0 for a list of streamer infos.
    pub content: u32,
    /// Version of the type.
    pub type_version: u32,
    /// Name of the type.
    pub type_name: Vec<u8>,
    /// The information.
    pub bytes: Vec<u8>,
}

/// A column; its number is its place in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The type of its elements.
    pub kind: ColumnType,
    /// How its elements are stored; an error for a type of a later version.
    pub encoding: std::result::Result<Encoding, String>,
    /// The field that it belongs to.
    pub field: usize,
    /// Which representation of the field it belongs to.
    pub representation: u16,
    /// The first element that is stored; those before it are zeros.
    pub first_element: u64,
    /// Whether the column is suppressed in clusters that were written before it was added.
    pub suppressed_before: bool,
}

/// A column without pages of its own (section "Alias columns"): a projected field shows the column of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    /// Number of the column with the pages.
    pub column: usize,
    /// Number of the field that shows it.
    pub field: usize,
}

/// Parts of a field's description that only later versions of the format know; they are kept when it is written again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LaterParts {
    /// Flags that are not known.
    pub flags: u16,
    /// Bytes behind all that is known.
    pub bytes: Vec<u8>,
}

/// Fields and columns of an RNTuple.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Schema {
    /// All fields.
    pub fields: Vec<Field>,
    /// All columns with pages of their own.
    pub columns: Vec<Column>,
    /// Fields at the top, in order.
    pub top: Vec<usize>,
    /// More about types, such as the streamer infos of the classes of streamed objects.
    pub type_infos: Vec<TypeInfo>,
    /// Columns that further fields show.
    pub aliases: Vec<Alias>,
}

/// The header envelope.
#[derive(Debug, Clone)]
pub struct Header {
    /// Name of the RNTuple.
    pub name: String,
    /// What its author says about it.
    pub description: String,
    /// Program that wrote it.
    pub writer: String,
    /// Fields and columns, as far as they were known when writing began.
    pub schema: Schema,
}

/// Reads the header.
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
    /// Adds a schema description: that of the header, or of the footer.
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

    /// Joins fields to their parents and columns to their fields, once all are there.
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
                return Err(unknown(format!("field {number} shows field {source}")));
            }
        }
        for number in 0..self.columns.len() {
            let (field, representation) = (self.columns[number].field, self.columns[number].representation);
            self.attach(number, field, representation)?;
        }
        for alias in self.aliases.clone() {
            let Some(column) = self.columns.get(alias.column) else {
                return Err(FormatError::damaged(
                    0,
                    format!("an alias of column {}, which is not there", alias.column),
                ));
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

    /// Whether a field has the numbers of an enumeration of signed characters. ROOT says `char` of them, as of letters,
    /// which have no sign.
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
            return Err(wrong(&format!("field {field}, which is not there")));
        };
        let representation = usize::from(representation);
        if representation > owner.columns.len() {
            return Err(wrong(&format!(
                "representation {representation} of field {field}, which lacks others before it"
            )));
        }
        if representation == owner.columns.len() {
            owner.columns.push(Vec::new());
        }
        owner.columns[representation].push(column);
        Ok(())
    }

    /// The classes of objects that streamers wrote: those that the schema describes, and those of the file.
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

    /// Names of the fields that lead to a field and its own, for errors. Ends where parents make a circle.
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
