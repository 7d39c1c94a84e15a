//! An RNTuple in an updated file. Entries and fields are added, and the existing pages stay where they are.

use branchline_format::ntuple::names::{is_generated, is_tuple};
use branchline_format::ntuple::number_types::{number_of_type, ColumnType};
use branchline_format::ntuple::page_list::ColumnPages;
use branchline_format::ntuple::schema::{Role, Schema};

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::file::rntuple_metadata::Ntuple;
use crate::file::File;
use crate::write::columns::fields::{FieldSink, SchemaBuilder};
use crate::write::columns::fill::{each_column, FieldWriter};
use crate::write::columns::ntuple::{NamedSink, OpenNtuple};
use crate::write::columns::writer::{refuse, NamedColumn, NewColumns, RefusedField};
use crate::write::new_file::{NewFile, SlotId};
use crate::write::pages::cluster::{ClusterColumns, GivenPages};
use crate::write::pages::metadata::WrittenCluster;

const HINT: &str = "write a new RNTuple with the entries of both";

impl OpenNtuple {
    /// Resumes writing an RNTuple. Returns an error if it has fields that cannot be written, or parts that would be
    /// lost.
    pub(crate) fn resume((new, slot): (NewColumns, SlotId), source: &File, old: &Ntuple) -> Result<Self> {
        let path = source.path();
        let refused = |reason: &str| {
            let message = format!("RNTuple {} cannot be extended: {reason}", new.name);
            ReadError::new(ReadErrorKind::Unsupported, path, message).with_hint(HINT)
        };
        if old.linked_sets_count > 0 {
            return Err(refused("its attribute sets would be lost"));
        }
        if old.schema.fields.iter().any(|field| field.source.is_some()) {
            return Err(refused("it has projected fields"));
        }
        let schema = old.schema.clone();
        let sink_of = |field: usize| {
            let sink = sink_of(&schema, field).map_err(|reason| refused(&reason))?;
            Ok(NamedSink { name: schema.fields[field].name.clone(), sink })
        };
        let sinks = schema.top.iter().map(|field| sink_of(*field)).collect::<Result<Vec<_>>>()?;
        let mut clusters = Vec::new();
        for cluster in old.clusters(source)? {
            let pages = |column: usize| match cluster.pages(column) {
                Ok(pages) => pages.ok_or_else(|| refused("fields were added to it after its first entries")),
                Err(error) => Err(ReadError::from_format(source.path(), &error)),
            };
            let columns = (0..schema.columns.len()).map(pages).collect::<Result<Vec<ColumnPages>>>()?;
            let checksums = columns.iter().map(|_| Vec::new()).collect();
            clusters.push(WrittenCluster { entries_count: cluster.entries_count(), columns, checksums });
        }
        let columns = ClusterColumns::new(&schema, new.layout);
        Ok(Self { new, slot, schema, clusters, columns, sinks, open_entries: 0 })
    }

    /// Adds fields, with values for all existing entries. A name such as `jet.pt` adds a member to the record `jet`.
    pub(super) fn add_fields(&mut self, file: &mut NewFile, fields: &[NamedColumn<'_>]) -> Result<()> {
        self.close_cluster(file)?;
        let path = file.path();
        let mut builder = SchemaBuilder::of(self.schema.clone(), self.is_split());
        let (mut sinks, mut refused) = (Vec::with_capacity(fields.len()), Vec::new());
        for field in fields {
            match builder.add_at(field) {
                Ok(sink) => sinks.push(NamedSink { name: field.name.clone(), sink }),
                Err(reason) => refused.push(RefusedField { name: field.name.clone(), reason }),
            }
        }
        refuse(&path, &refused)?;
        let before = self.schema.columns.len();
        let mut columns = ClusterColumns::new(&builder.schema, self.new.layout);
        let mut start = 0;
        for cluster in &mut self.clusters {
            // The cast is safe: the caller has the values of all entries in memory.
            let end = start + cluster.entries_count as usize;
            let mut writer = FieldWriter { columns: &mut columns, given: GivenPages::default(), path: &path };
            for (NamedSink { name, sink }, field) in sinks.iter().zip(fields) {
                writer.add(sink, &field.values, start..end, name)?;
            }
            let given = writer.given;
            columns.settle(given, file.output(), self.new.date)?;
            for NamedSink { sink, .. } in &sinks {
                each_column(sink, &mut |column| columns.use_column(column));
            }
            let WrittenCluster { columns: added, checksums, .. } =
                columns.close(file.output(), self.new.date, cluster.entries_count)?;
            cluster.columns.extend(added.into_iter().skip(before));
            cluster.checksums.extend(checksums.into_iter().skip(before));
            start = end;
        }
        self.schema = builder.schema;
        self.columns.extend(&self.schema);
        for NamedSink { name, sink } in sinks {
            self.add_sink(&name, sink);
        }
        Ok(())
    }

    /// Adds a sink at the top level or, if `name` has dots, to the record that precedes the last dot.
    fn add_sink(&mut self, name: &str, sink: FieldSink) {
        let mut parts: Vec<&str> = name.split('.').collect();
        let last = parts.pop().unwrap_or(name);
        let Some((first, rest)) = parts.split_first() else {
            self.sinks.push(NamedSink { name: name.to_string(), sink });
            return;
        };
        let mut place = self.sinks.iter_mut().find(|one| one.name == *first).map(|one| &mut one.sink);
        for part in rest {
            place = match place {
                Some(FieldSink::Record(members)) => {
                    members.iter_mut().find(|(name, _)| name == part).map(|(_, sink)| sink)
                }
                _ => None,
            };
        }
        if let Some(FieldSink::Record(members)) = place {
            members.push((last.to_string(), sink));
        }
    }

    fn is_split(&self) -> bool {
        let ends = ColumnType::of_ends(true).number;
        let of_numbers = |column: &branchline_format::ntuple::schema::Column| {
            let field = &self.schema.fields[column.field];
            number_of_type(&field.type_name).is_some_and(|number| {
                let split = ColumnType::of_numbers(number, true).number;
                split != ColumnType::of_numbers(number, false).number && column.kind.number == split
            })
        };
        self.schema.columns.iter().any(|column| column.kind.number == ends || of_numbers(column))
    }
}

/// Returns the sink for an existing field, or the reason why the field cannot be written.
fn sink_of(schema: &Schema, number: usize) -> std::result::Result<FieldSink, String> {
    let field = &schema.fields[number];
    let other =
        || Err(format!("writing its field {} of type {:?} is not supported", schema.path_of(number), field.type_name));
    let columns = match field.columns.as_slice() {
        [] => [].as_slice(),
        [columns] => columns,
        // Each cluster uses one of the field's representations. Such fields are refused, because it is only known at
        // the end of a cluster which representation the cluster uses.
        _ => return other(),
    };
    let is_late =
        |column: &usize| schema.columns[*column].first_element > 0 || schema.columns[*column].suppressed_before;
    if columns.iter().any(is_late) || columns.iter().any(|column| schema.columns[*column].encoding.is_err()) {
        return other();
    }
    let is_ends = |column: usize| {
        let kind = &schema.columns[column].kind;
        [true, false].iter().any(|is_split| ColumnType::of_ends(*is_split) == *kind)
    };
    match (field.role, columns, field.children.as_slice()) {
        (Role::Plain, [column], []) => {
            let Some(numbers) = number_of_type(&field.type_name) else { return other() };
            let kind = &schema.columns[*column].kind;
            let is_whole = [true, false].iter().any(|split| ColumnType::of_numbers(numbers, *split) == *kind);
            if !is_whole {
                return other();
            }
            Ok(FieldSink::Number { column: *column, number: numbers })
        }
        (Role::Plain, [ends, bytes], []) if field.type_name == "std::string" && is_ends(*ends) => {
            Ok(FieldSink::Text { ends: *ends, bytes: *bytes })
        }
        (Role::Plain, [], [child]) if field.array_size.is_some_and(|size| size > 0) => {
            let size = field.array_size.and_then(|size| usize::try_from(size).ok()).unwrap_or_default();
            Ok(FieldSink::Regular { size, content: Box::new(sink_of(schema, *child)?) })
        }
        (Role::Collection, [ends], [child]) if is_ends(*ends) => {
            let (ends, content) = (*ends, Box::new(sink_of(schema, *child)?));
            let type_name = field.type_name.as_str();
            let holds_at_most_one = |template: &&str| type_name.starts_with(*template);
            Ok(match ["std::optional<", "std::unique_ptr<"].iter().any(holds_at_most_one) {
                true => FieldSink::Option { ends, content },
                false => FieldSink::List { ends, content },
            })
        }
        (Role::Record, [], children) => {
            let sinks = children.iter().map(|child| sink_of(schema, *child));
            let sinks = sinks.collect::<std::result::Result<Vec<_>, String>>()?;
            if is_tuple(schema, number) {
                return Ok(FieldSink::Tuple(sinks));
            }
            if !field.type_name.is_empty() && !is_generated(&field.type_name) {
                return other();
            }
            let names = children.iter().map(|child| schema.fields[*child].name.clone());
            Ok(FieldSink::Record(names.zip(sinks).collect()))
        }
        _ => other(),
    }
}
