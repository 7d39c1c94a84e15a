//! Converts the records of a stream to the dataclasses of `branchline.reading.sources`.

use branchline_engine::read::records::{BranchRecord, FileRecord, Records};
use branchline_storage::ReplicaRead;
use branchline_trace::{Counter, Unit};
use pyo3::prelude::*;
use pyo3::types::PyDict;

const SECONDS_PER_NANOSECOND: f64 = 1e-9;

/// Converts the records of a stream to `StreamRecords`.
pub fn to_python<'py>(py: Python<'py>, records: &Records) -> PyResult<Bound<'py, PyAny>> {
    let classes = py.import("branchline.reading.sources")?;
    let (file_class, branch_class) = (classes.getattr("FileReading")?, classes.getattr("BranchReading")?);
    let files = records.files().iter().map(|record| file_reading(&file_class, record)).collect::<PyResult<Vec<_>>>()?;
    let of_branch = |record: &BranchRecord| branch_reading(&branch_class, record);
    let branches = records.branches().iter().map(of_branch).collect::<PyResult<Vec<_>>>()?;
    let wait = records.wait();
    let wait = classes.getattr("ReaderWait")?.call1((wait.whole_s, wait.fetch_s, wait.decompress_s, wait.decode_s))?;
    classes.getattr("StreamRecords")?.call1((files, branches, wait, records.threads_count()))
}

/// Converts the record of a file to a `FileReading`, which has a field for each counter. Times are in seconds, in
/// fields with the suffix `_s`.
fn file_reading<'py>(class: &Bound<'py, PyAny>, record: &FileRecord) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(class.py());
    fields.set_item("source_index", record.source_index)?;
    fields.set_item("path", &record.path)?;
    fields.set_item("store", &record.store)?;
    fields.set_item("size_bytes", record.size_bytes)?;
    fields.set_item("identity", &record.identity)?;
    fields.set_item("remarks", record.remarks.all())?;
    let replica_class = class.py().import("branchline.reading.sources")?.getattr("ReplicaReading")?;
    let replicas = record.remarks.replicas();
    let replicas = replicas.iter().map(|one| replica_reading(&replica_class, one)).collect::<PyResult<Vec<_>>>()?;
    fields.set_item("replicas", replicas)?;
    fields.set_item("entries", record.entries)?;
    fields.set_item("codec", record.codec.map(|codec| codec.name()))?;
    let snapshot = record.counters.snapshot();
    for (counter, value) in snapshot.iter() {
        match (counter.unit(), counter.name().strip_suffix("_ns")) {
            (Unit::Nanoseconds, Some(name)) => {
                fields.set_item(format!("{name}_s"), value as f64 * SECONDS_PER_NANOSECOND)?;
            }
            _ => fields.set_item(counter.name(), value)?,
        }
    }
    // Subtract the gaps that were only read because ranges were joined.
    let wanted = snapshot.get(Counter::BytesAsked).saturating_sub(snapshot.get(Counter::GapBytes));
    fields.set_item(Counter::BytesAsked.name(), wanted)?;
    class.call((), Some(&fields))
}

fn replica_reading<'py>(class: &Bound<'py, PyAny>, replica: &ReplicaRead) -> PyResult<Bound<'py, PyAny>> {
    class.call1((&replica.path, replica.read_bytes, replica.failures_count, &replica.error))
}

fn branch_reading<'py>(class: &Bound<'py, PyAny>, record: &BranchRecord) -> PyResult<Bound<'py, PyAny>> {
    let BranchRecord { path, cost } = record;
    let fields = PyDict::new(class.py());
    fields.set_item("name", path)?;
    fields.set_item("codec", cost.codec.map(|codec| codec.name()))?;
    fields.set_item("baskets", cost.baskets)?;
    fields.set_item("compressed_bytes", cost.compressed_bytes)?;
    fields.set_item("plain_bytes", cost.plain_bytes)?;
    fields.set_item("decompress_s", cost.decompress_ns as f64 * SECONDS_PER_NANOSECOND)?;
    fields.set_item("decode_s", cost.decode_ns as f64 * SECONDS_PER_NANOSECOND)?;
    class.call((), Some(&fields))
}
