//! The records of a stream as plain Python numbers.

use branchline_engine::read::records::{BranchCost, FileRecord, Records};
use branchline_trace::{Counter, Unit};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

const SECONDS_PER_NANOSECOND: f64 = 1e-9;

/// `{"files": [...], "branches": [...], "consumer": {...}, "threads": n}`; counters of time come as seconds (`_s`).
pub fn to_python<'py>(py: Python<'py>, records: &Records) -> PyResult<Bound<'py, PyDict>> {
    let files = PyList::empty(py);
    for record in records.files() {
        files.append(file_record(py, &record)?)?;
    }
    let branches = PyList::empty(py);
    for (name, cost) in records.branches() {
        branches.append(branch_record(py, &name, &cost)?)?;
    }
    let wait = records.wait();
    let consumer = PyDict::new(py);
    consumer.set_item("wait_s", wait.whole_s)?;
    consumer.set_item("wait_fetch_s", wait.fetch_s)?;
    consumer.set_item("wait_decompress_s", wait.decompress_s)?;
    consumer.set_item("wait_decode_s", wait.decode_s)?;
    let all = PyDict::new(py);
    all.set_item("files", files)?;
    all.set_item("branches", branches)?;
    all.set_item("consumer", consumer)?;
    all.set_item("threads", records.threads_count())?;
    Ok(all)
}

fn file_record<'py>(py: Python<'py>, record: &FileRecord) -> PyResult<Bound<'py, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("source_index", record.source_index)?;
    about.set_item("path", &record.path)?;
    about.set_item("store", &record.store)?;
    about.set_item("size_bytes", record.size_bytes)?;
    about.set_item("remarks", record.remarks.all())?;
    about.set_item("entries", record.entries)?;
    about.set_item("codec", record.codec.map(|codec| codec.name()))?;
    let snapshot = record.counters.snapshot();
    for (counter, value) in snapshot.iter() {
        match (counter.unit(), counter.name().strip_suffix("_ns")) {
            (Unit::Nanoseconds, Some(name)) => {
                about.set_item(format!("{name}_s"), value as f64 * SECONDS_PER_NANOSECOND)?;
            }
            _ => about.set_item(counter.name(), value)?,
        }
    }
    // The store is asked for joined ranges: what lies between them was not asked for by anyone.
    let asked = snapshot.get(Counter::BytesAsked).saturating_sub(snapshot.get(Counter::GapBytes));
    about.set_item(Counter::BytesAsked.name(), asked)?;
    Ok(about)
}

fn branch_record<'py>(py: Python<'py>, name: &str, cost: &BranchCost) -> PyResult<Bound<'py, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("name", name)?;
    about.set_item("codec", cost.codec.map(|codec| codec.name()))?;
    about.set_item("baskets", cost.baskets)?;
    about.set_item("compressed_bytes", cost.compressed_bytes)?;
    about.set_item("plain_bytes", cost.plain_bytes)?;
    about.set_item("decompress_s", cost.decompress_ns as f64 * SECONDS_PER_NANOSECOND)?;
    about.set_item("decode_s", cost.decode_ns as f64 * SECONDS_PER_NANOSECOND)?;
    Ok(about)
}
