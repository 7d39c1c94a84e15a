//! An RNTuple that is made from columns of values, in a new file.

use branchline_format::compress::Setting;
use branchline_format::ntuple::anchor::CLASS_NAME;
use branchline_format::ntuple::schema::Schema;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::columns::fields::{FieldSink, SchemaBuilder, Shown};
use crate::write::columns::fill::{each_column, FieldWriter};
use crate::write::columns::writer::{refuse, Filled, NamedColumn, NewColumns, OpenColumns, RefusedField, Values};
use crate::write::new_file::{NewFile, ObjectName, SlotId};
use crate::write::pages::cluster::{ClusterColumns, GivenPages};
use crate::write::pages::metadata::{write_metadata, Labels, WrittenCluster};

/// An RNTuple that is being written.
#[derive(Clone)]
pub(crate) struct OpenNtuple {
    pub(super) new: NewColumns,
    pub(super) slot: SlotId,
    pub(super) schema: Schema,
    pub(super) clusters: Vec<WrittenCluster>,
    pub(super) columns: ClusterColumns,
    pub(super) sinks: Vec<NamedSink>,
    /// Number of entries in the open cluster.
    pub(super) open_entries: u64,
}

/// A field, with the columns that receive its values.
#[derive(Clone)]
pub(super) struct NamedSink {
    pub(super) name: String,
    pub(super) sink: FieldSink,
}

impl OpenNtuple {
    /// Creates an RNTuple whose fields have the types of the given values.
    pub(crate) fn begin(
        file: &mut NewFile,
        new: NewColumns,
        fields: &[NamedColumn<'_>],
        shown: &[Shown],
    ) -> Result<Self> {
        let name = file.path();
        let mut builder = SchemaBuilder::new(new.layout.setting != Setting::NONE);
        let (mut sinks, mut refused) = (Vec::with_capacity(fields.len()), Vec::new());
        for field in fields {
            match builder.add(field) {
                Ok(sink) => sinks.push(NamedSink { name: field.name.clone(), sink }),
                Err(reason) => refused.push(RefusedField { name: field.name.clone(), reason }),
            }
        }
        refuse(&name, &refused)?;
        for one in shown {
            builder.show(one).map_err(|reason| ReadError::new(ReadErrorKind::Unsupported, &name, reason))?;
        }
        let schema = builder.schema;
        let slot = file.reserve(new.directory);
        let columns = ClusterColumns::new(&schema, new.layout);
        Ok(Self { new, slot, schema, clusters: Vec::new(), columns, sinks, open_entries: 0 })
    }

    pub(super) fn close_cluster(&mut self, file: &mut NewFile) -> Result<()> {
        if self.open_entries == 0 {
            return Ok(());
        }
        for field in &self.sinks {
            each_column(&field.sink, &mut |column| self.columns.use_column(column));
        }
        let cluster = self.columns.close(file.output(), self.new.date, self.open_entries)?;
        self.clusters.push(cluster);
        self.open_entries = 0;
        Ok(())
    }
}

impl OpenColumns for OpenNtuple {
    fn fill(&mut self, file: &mut NewFile, values: &[Values<'_>], count: usize) -> Result<()> {
        if values.len() != self.sinks.len() {
            let message = format!("got values of {} fields, expected {}", values.len(), self.sinks.len());
            return Err(ReadError::internal(&file.path(), &message));
        }
        let bytes: u64 = values.iter().map(|column| column.size_bytes() as u64).sum();
        let path = file.path();
        let mut start = 0;
        while start < count {
            let room = match self.new.layout.cluster_entries {
                Some(most) => most - self.open_entries,
                None => {
                    // Take half of the estimated number of entries that fit, because entries differ in size.
                    let portion = (self.columns.room_bytes() / 2).max(limits::FILLED_AT_ONCE_BYTES);
                    let entries = u128::from(portion) * count as u128 / u128::from(bytes.max(1));
                    u64::try_from(entries).unwrap_or(u64::MAX).max(1)
                }
            };
            let end = start + room.min((count - start) as u64) as usize;
            let mut writer = FieldWriter { columns: &mut self.columns, given: GivenPages::default(), path: &path };
            for (field, column) in self.sinks.iter().zip(values) {
                writer.add(&field.sink, column, start..end, &field.name)?;
            }
            let given = writer.given;
            self.columns.settle(given, file.output(), self.new.date)?;
            self.open_entries += (end - start) as u64;
            start = end;
            let is_full = match self.new.layout.cluster_entries {
                Some(most) => self.open_entries >= most,
                None => self.columns.estimated_bytes() >= self.new.layout.cluster_bytes,
            };
            if is_full {
                self.close_cluster(file)?;
            }
        }
        Ok(())
    }

    fn write_full(&mut self, file: &mut NewFile) -> Result<()> {
        let enough = limits::PUBLISHED_BASKET_BYTES * self.schema.columns.len();
        if self.new.layout.cluster_entries.is_none() && self.columns.estimated_bytes() >= enough as u64 {
            self.close_cluster(file)?;
        }
        Ok(())
    }

    fn snapshot(&self, file: &mut NewFile) -> Result<Filled> {
        Box::new(self.clone()).finish(file)
    }

    fn finish(mut self: Box<Self>, file: &mut NewFile) -> Result<Filled> {
        self.close_cluster(file)?;
        let NewColumns { name, description, date, layout, .. } = &self.new;
        let labels =
            Labels { name: name.clone(), description: description.clone(), date: *date, setting: layout.setting };
        let anchor = write_metadata(file.output(), &labels, &self.schema, &self.clusters)?;
        let key = ObjectName {
            class_name: CLASS_NAME.to_string(),
            name: labels.name,
            title: String::new(),
            date: *date,
            cycle: self.new.cycle,
        };
        file.write_object(self.slot, &key, |_| Ok(anchor))?;
        let entries_count = self.clusters.iter().map(|cluster| cluster.entries_count).sum();
        Ok(Filled { entries_count, clusters_count: self.clusters.len() as u64 })
    }

    fn add_columns(&mut self, file: &mut NewFile, fields: &[NamedColumn<'_>]) -> Result<()> {
        self.add_fields(file, fields)
    }
}
