//! An RNTuple in a file of its own, made from columns of values.

use branchline_format::column::Column as Values;
use branchline_format::compress::Setting;
use branchline_format::ntuple::anchor::CLASS_NAME;
use branchline_format::ntuple::schema::Schema;
use branchline_format::write::classes::ntuple_infos;

use crate::error::{ReadError, ReadErrorKind, Result};
use crate::limits;
use crate::write::columns::fields::{FieldSink, SchemaBuilder, Shown};
use crate::write::columns::fill::{each_column, FieldWriter};
use crate::write::columns::writer::{frame, refuse, ColumnsWriter, NamedColumn, NewColumnsFile, RefusedField, Written};
use crate::write::new_file::{NewFile, ObjectName, SlotId, TOP};
use crate::write::output::Output;
use crate::write::pages::cluster::ClusterColumns;
use crate::write::pages::metadata::{write_metadata, Labels, WrittenCluster};

/// An RNTuple that is being written.
pub struct NtupleWriter {
    new: NewColumnsFile,
    file: NewFile,
    slot: SlotId,
    schema: Schema,
    clusters: Vec<WrittenCluster>,
    columns: ClusterColumns,
    sinks: Vec<NamedSink>,
    /// Entries of the cluster that is being filled.
    open_entries: u64,
}

/// A field with what takes its values.
struct NamedSink {
    name: String,
    sink: FieldSink,
}

impl NtupleWriter {
    /// Begins a file with fields for values like these.
    pub fn create(new: NewColumnsFile, fields: &[NamedColumn], shown: &[Shown]) -> Result<Self> {
        let name = new.output.display().to_string();
        let mut builder = SchemaBuilder::new(new.layout.setting != Setting::NONE);
        let (mut sinks, mut refused) = (Vec::with_capacity(fields.len()), Vec::new());
        for NamedColumn { name, values } in fields {
            match builder.add(name, values) {
                Ok(sink) => sinks.push(NamedSink { name: name.clone(), sink }),
                Err(reason) => refused.push(RefusedField { name: name.clone(), reason }),
            }
        }
        refuse(&name, &refused)?;
        for one in shown {
            builder.show(one).map_err(|reason| ReadError::new(ReadErrorKind::Unsupported, &name, reason))?;
        }
        let schema = builder.schema;
        let output = Output::create(&new.output, new.replace, &new.inputs)?;
        let mut file = NewFile::begin(output, frame(&new))?;
        let slot = file.reserve(TOP);
        let columns = ClusterColumns::new(&schema, new.layout);
        Ok(Self { new, file, slot, schema, clusters: Vec::new(), columns, sinks, open_entries: 0 })
    }

    fn path(&self) -> String {
        self.new.output.display().to_string()
    }

    fn close_cluster(&mut self) -> Result<()> {
        if self.open_entries == 0 {
            return Ok(());
        }
        for field in &self.sinks {
            each_column(&field.sink, &mut |column| self.columns.use_column(column));
        }
        let cluster = self.columns.close(self.file.output(), self.new.date, self.open_entries)?;
        self.clusters.push(cluster);
        self.open_entries = 0;
        Ok(())
    }
}

impl ColumnsWriter for NtupleWriter {
    fn fill(&mut self, values: &[Values], count: usize) -> Result<()> {
        if values.len() != self.sinks.len() {
            let message = format!("values of {} fields are given for {}", values.len(), self.sinks.len());
            return Err(ReadError::internal(&self.path(), &message));
        }
        let bytes: u64 = values.iter().map(|column| column.size_bytes() as u64).sum();
        let portion = (count as u64 * limits::FILLED_AT_ONCE_BYTES / bytes.max(1)).max(1);
        let mut start = 0;
        while start < count {
            let room = self.new.layout.cluster_entries.map_or(portion, |most| most - self.open_entries);
            let end = start + room.min(portion).min((count - start) as u64) as usize;
            let path = self.path();
            let mut writer = FieldWriter { columns: &mut self.columns, path: &path };
            for (field, column) in self.sinks.iter().zip(values) {
                writer.add(&field.sink, column, start..end, &field.name)?;
            }
            self.open_entries += (end - start) as u64;
            start = end;
            let is_full = match self.new.layout.cluster_entries {
                Some(most) => self.open_entries >= most,
                None => self.columns.estimated_bytes() >= self.new.layout.cluster_bytes,
            };
            if is_full {
                self.close_cluster()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written> {
        self.close_cluster()?;
        let path = self.path();
        let NewColumnsFile { name, description, date, layout, .. } = &self.new;
        let labels =
            Labels { name: name.clone(), description: description.clone(), date: *date, setting: layout.setting };
        let anchor = write_metadata(self.file.output(), &labels, &self.schema, &self.clusters)?;
        let key = ObjectName {
            class_name: CLASS_NAME.to_string(),
            name: labels.name,
            title: String::new(),
            date: *date,
            cycle: 1,
        };
        self.file.write_object(self.slot, &key, |_| Ok(anchor))?;
        let named = |error| ReadError::from_format(&path, &error);
        let size_bytes = self.file.finish(|key_size| ntuple_infos(key_size).map_err(named))?;
        self.file.output().publish()?;
        let entries_count = self.clusters.iter().map(|cluster| cluster.entries_count).sum();
        Ok(Written { entries_count, clusters_count: self.clusters.len() as u64, size_bytes })
    }
}
