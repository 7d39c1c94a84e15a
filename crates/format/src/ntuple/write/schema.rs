//! Encoding of the header, which contains the schema, and of the footer, which contains the cluster groups (sections
//! "Header Envelope" and "Footer Envelope"). All fields and columns are in the header, because the schema is known
//! before the first page is written.
//!
//! ```
//! use branchline_format::ntuple::schema::Schema;
//! use branchline_format::ntuple::write::schema::{write_footer, write_header};
//!
//! let header = write_header("events", "", &Schema::default())?;
//! let footer = write_footer(&header, &[])?;
//! assert!(footer.plain.len() < header.plain.len());
//! # Ok::<(), branchline_format::error::FormatError>(())
//! ```

use crate::error::Result;

use super::super::envelope::EnvelopeKind;
use super::super::footer::ClusterGroup;
use super::super::schema::{
    Column, Field, Role, Schema, TypeInfo, HAS_RANGE, HAS_TYPE_CHECKSUM, PROJECTED, REPETITIVE,
};
use super::envelope::{push_link, NewEnvelope};
use super::wire::Wire;

/// Name of the writing program, stored in the header.
const WRITER: &str = concat!("Branchline v", env!("CARGO_PKG_VERSION"));

/// Encode the header of an RNTuple.
pub fn write_header(name: &str, description: &str, schema: &Schema) -> Result<NewEnvelope> {
    let mut wire = Wire::default();
    wire.u64(0); // feature flags
    for text in [name, description, WRITER] {
        wire.string(text.as_bytes())?;
    }
    wire.list(schema.fields.iter().enumerate(), |wire, (number, field)| {
        wire.record(|wire| push_field(wire, number, field))
    })?;
    wire.list(schema.columns.iter(), |wire, column| wire.record(|wire| push_column(wire, column)))?;
    wire.list(schema.aliases.iter(), |wire, alias| {
        wire.record(|wire| {
            wire.count(alias.column)?;
            wire.count(alias.field)
        })
    })?;
    wire.list(schema.type_infos.iter(), |wire, info| wire.record(|wire| push_type_info(wire, info)))?;
    Ok(NewEnvelope::new(EnvelopeKind::Header, &wire))
}

fn push_field(wire: &mut Wire, number: usize, field: &Field) -> Result<()> {
    wire.u32(field.field_version);
    wire.u32(field.type_version);
    wire.count(field.parent.unwrap_or(number))?;
    wire.u16(match field.role {
        Role::Plain => 0,
        Role::Collection => 1,
        Role::Record => 2,
        Role::Variant => 3,
        Role::Streamer => 4,
        Role::Unknown(other) => other,
    });
    let mut flags = field.later.flags;
    for (flag, is_set) in [
        (REPETITIVE, field.array_size.is_some()),
        (PROJECTED, field.source.is_some()),
        (HAS_TYPE_CHECKSUM, field.type_checksum.is_some()),
    ] {
        flags |= if is_set { flag } else { 0 };
    }
    wire.u16(flags);
    for text in [&field.name, &field.type_name, &field.type_alias, &field.description] {
        wire.string(text.as_bytes())?;
    }
    if let Some(size) = field.array_size {
        wire.u64(size);
    }
    if let Some(source) = field.source {
        wire.count(source)?;
    }
    if let Some(checksum) = field.type_checksum {
        wire.u32(checksum);
    }
    wire.bytes.extend_from_slice(&field.later.bytes);
    Ok(())
}

fn push_column(wire: &mut Wire, column: &Column) -> Result<()> {
    wire.u16(column.kind.number);
    wire.u16(column.kind.bits);
    wire.count(column.field)?;
    wire.u16(if column.kind.range.is_some() { HAS_RANGE } else { 0 });
    wire.u16(column.representation);
    if let Some(range) = column.kind.range {
        wire.f64(range.min);
        wire.f64(range.max);
    }
    Ok(())
}

fn push_type_info(wire: &mut Wire, info: &TypeInfo) -> Result<()> {
    wire.u32(info.content);
    wire.u32(info.type_version);
    wire.string(&info.type_name)?;
    wire.string(&info.bytes)
}

/// Encode the footer that belongs to a header.
pub fn write_footer(header: &NewEnvelope, groups: &[ClusterGroup]) -> Result<NewEnvelope> {
    let mut wire = Wire::default();
    wire.u64(0); // feature flags
    wire.u64(header.checksum);
    wire.record(|wire| {
        // Write an empty schema extension.
        (0..4).try_for_each(|_| wire.list_with(0, |_| Ok(())))
    })?;
    wire.list(groups.iter(), |wire, group| {
        wire.record(|wire| {
            wire.u64(group.first_entry);
            wire.u64(group.entries_count);
            wire.u32(group.clusters_count);
            push_link(wire, &group.page_list);
            Ok(())
        })
    })?;
    Ok(NewEnvelope::new(EnvelopeKind::Footer, &wire))
}
