//! Predicts the requests needed to read a file.

use std::time::Duration;

use branchline_engine::read::plan::planning;
use branchline_engine::read::plan::planning::{PlanSettings, PlannedFile, PlannedOpening, Purpose};
use branchline_engine::tree::extents::Extent;
use branchline_storage::{ByteRange, Link};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::access::PythonAccess;
use crate::buffer::Buffer;

/// Fields of the Python class `branchline.lab.forecast.laid_file.LaidFile`.
#[derive(FromPyObject)]
pub struct FileFields {
    size_bytes: u64,
    is_at_a_server: bool,
    is_near: bool,
    store_gap_bytes: u64,
    metadata: Vec<Vec<(u64, u64)>>,
    infos: Option<(u64, u64)>,
    is_ntuple: bool,
    entries: u64,
    extents: Vec<Vec<(u64, u64, u64, u64)>>,
    unwanted_first: Vec<(u64, u64)>,
    stored_per_entry: f64,
    plain_per_entry: f64,
    values_per_entry: f64,
    scratch_bytes: u64,
}

/// Fields of the Python class `branchline.lab.forecast.planned_requests.PlanRequest`.
#[derive(FromPyObject)]
pub struct RequestFields {
    access: PythonAccess,
    link: Option<(f64, f64)>,
    step_bytes: u64,
    step_entries: Option<u64>,
    has_even_steps: bool,
    memory_limit_bytes: u64,
    threads: usize,
    is_named: bool,
    seen: Option<(u64, f64)>,
    entries: Option<(u64, u64)>,
    opening: String,
}

/// The calls for reading a file, as columns with one row per range. One of the columns has the index of the call that
/// reads the range.
#[pyclass(frozen, get_all)]
pub struct PlannedReads {
    call: Py<Buffer>,
    offset: Py<Buffer>,
    size: Py<Buffer>,
    purposes: Vec<&'static str>,
    chunk_of_call: Py<Buffer>,
    chunks: u64,
    calls_in_flight: usize,
    bytes_in_flight: u64,
    is_whole: bool,
    opens_ahead: bool,
    seen: Option<(u64, f64)>,
}

/// Returns the calls that reading a file would make. Returns None if the memory limit is too small for the file. Raises
/// ValueError if the name of the opening mode is unknown.
#[pyfunction]
pub fn plan_reads(py: Python<'_>, file: FileFields, request: RequestFields) -> PyResult<Option<PlannedReads>> {
    let (file, settings) = (PlannedFile::from(file), PlanSettings::try_from(request)?);
    let Some(planned) = py.detach(|| planning::plan_reads(&file, &settings)) else { return Ok(None) };
    let (mut call, mut offset, mut size) = (Vec::new(), Vec::new(), Vec::new());
    for (number, one) in planned.calls.iter().enumerate() {
        call.extend(one.ranges.iter().map(|_| number as i64));
        offset.extend(one.ranges.iter().map(|range| range.offset as i64));
        size.extend(one.ranges.iter().map(|range| range.length as i64));
    }
    let numbers = |column: Vec<i64>| Py::new(py, Buffer::numbers(column));
    Ok(Some(PlannedReads {
        call: numbers(call)?,
        offset: numbers(offset)?,
        size: numbers(size)?,
        chunk_of_call: numbers(planned.calls.iter().map(|one| one.chunk as i64).collect())?,
        purposes: planned.calls.iter().map(|one| purpose_name(one.purpose)).collect(),
        chunks: planned.chunks_count,
        calls_in_flight: planned.calls_in_flight,
        bytes_in_flight: planned.bytes_in_flight,
        is_whole: planned.is_whole,
        opens_ahead: planned.opens_ahead,
        seen: planned.seen,
    }))
}

fn purpose_name(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Opening => "opening",
        Purpose::Baskets => "baskets",
        Purpose::Prefetch => "prefetch",
        Purpose::Staging => "staging",
    }
}

impl From<FileFields> for PlannedFile {
    fn from(given: FileFields) -> Self {
        let range = |(offset, length): (u64, u64)| ByteRange::new(offset, length);
        let extent = |(offset, size, start, stop)| Extent { offset, size, entries: start..stop };
        Self {
            size_bytes: given.size_bytes,
            is_at_a_server: given.is_at_a_server,
            is_near: given.is_near,
            store_gap_bytes: given.store_gap_bytes,
            metadata: given.metadata.into_iter().map(|one| one.into_iter().map(range).collect()).collect(),
            infos: given.infos.map(range),
            is_ntuple: given.is_ntuple,
            entries_count: given.entries,
            branches: given.extents.into_iter().map(|branch| branch.into_iter().map(extent).collect()).collect(),
            unwanted_first: given.unwanted_first.into_iter().map(range).collect(),
            stored_per_entry: given.stored_per_entry,
            plain_per_entry: given.plain_per_entry,
            values_per_entry: given.values_per_entry,
            scratch_bytes: given.scratch_bytes,
        }
    }
}

impl TryFrom<RequestFields> for PlanSettings {
    type Error = PyErr;

    fn try_from(given: RequestFields) -> PyResult<Self> {
        let link = |(round_trip_s, bytes_per_second): (f64, f64)| Link {
            round_trip: Duration::try_from_secs_f64(round_trip_s).unwrap_or_default(),
            bytes_per_second,
        };
        Ok(Self {
            access: given.access.0,
            link: given.link.map(link),
            step_bytes: given.step_bytes,
            step_entries: given.step_entries,
            has_even_steps: given.has_even_steps,
            memory_limit_bytes: given.memory_limit_bytes,
            threads: given.threads,
            is_named: given.is_named,
            seen: given.seen,
            entries: given.entries.map(|(start, stop)| start..stop),
            opening: opening_named(&given.opening)?,
        })
    }
}

/// Returns the value of `branchline.lab.forecast.planned_requests.Opening` with this name.
fn opening_named(name: &str) -> PyResult<PlannedOpening> {
    match name {
        "stream" => Ok(PlannedOpening::InStream),
        "apart" => Ok(PlannedOpening::Apart),
        "before" => Ok(PlannedOpening::Before),
        _ => Err(PyValueError::new_err(format!("unknown opening {name:?}; choose one of stream, apart, before"))),
    }
}
