//! Fast merge for Python.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use branchline_engine::error::{ReadError, ReadErrorKind};
use branchline_engine::write::compare::{compare as compare_files, CompareOptions};
use branchline_engine::write::merge::{self, MergeOptions, Merged, Order};
use branchline_engine::write::{ClusterSize, Rewriting, Selection};
use branchline_format::compress::{InvalidSetting, Setting};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::access::PythonAccess;
use crate::errors::detached;

/// What is to be merged, as a dictionary.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Wanted {
    inputs: Vec<String>,
    access: Option<PythonAccess>,
    output: PathBuf,
    tree: Option<String>,
    order: String,
    codec: Option<String>,
    branches: HashMap<String, HashSet<String>>,
    rewrites: bool,
    basket_size: Option<u32>,
    cluster_events: Option<u64>,
    cluster_bytes: Option<u64>,
    selections: HashMap<String, (Vec<u8>, u64)>,
    selected: Option<String>,
    replace: bool,
    max_size: Option<u64>,
    skip_bad_files: bool,
    verify: bool,
    memory: u64,
    sync: bool,
    resume: bool,
    journal_bytes: Option<u64>,
    records_at: Option<u64>,
}

/// A merge, which one thread runs and others may watch and stop.
#[pyclass(frozen)]
pub struct Merge(merge::Merge);

#[pymethods]
impl Merge {
    #[new]
    fn new(wanted: Wanted) -> PyResult<Self> {
        let order = match wanted.order.as_str() {
            "offset" => Order::Offset,
            "branch" => Order::Branch,
            "entry" => Order::Entry,
            other => return Err(PyValueError::new_err(format!("no such order: {other}"))),
        };
        let codec: Option<Setting> = wanted
            .codec
            .map(|codec| codec.parse())
            .transpose()
            .map_err(|error: InvalidSetting| PyValueError::new_err(error.to_string()))?;
        let clusters = wanted.cluster_events.map(ClusterSize::Entries);
        let clusters = clusters.or(wanted.cluster_bytes.map(ClusterSize::Bytes));
        let rewriting = wanted.rewrites.then_some(Rewriting { basket_bytes: wanted.basket_size, clusters });
        let selection = |(path, (bits, entries_count))| {
            let selection = Selection::new(bits, entries_count).map(Arc::new);
            selection.map(|selection| (path, selection)).ok_or_else(|| PyValueError::new_err("one bit for each entry"))
        };
        let selections = wanted.selections.into_iter().map(selection).collect::<PyResult<_>>()?;
        Ok(Self(merge::Merge::new(MergeOptions {
            inputs: wanted.inputs,
            access: wanted.access.unwrap_or_default().0,
            output: wanted.output,
            tree: wanted.tree,
            branches: wanted.branches,
            order,
            codec,
            rewriting,
            selections,
            selected: wanted.selected,
            replace: wanted.replace,
            size_bytes_max: wanted.max_size,
            skips_bad_files: wanted.skip_bad_files,
            proves: wanted.verify,
            memory_bytes: wanted.memory,
            skips_sync: !wanted.sync,
            resumes: wanted.resume,
            journal_bytes: wanted.journal_bytes,
            records_at: wanted.records_at,
        })))
    }

    /// Files that were merged and bytes that were copied so far.
    fn progress(&self) -> (u64, u64) {
        self.0.progress()
    }

    /// Ends the merge soon, with nothing left of it.
    fn stop(&self) {
        self.0.stop();
    }

    /// Merges, and tells what was made.
    fn run<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let merged = detached(py, "", || self.0.run())?;
        about(py, merged)
    }
}

/// Compares outputs with inputs, basket by basket.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    outputs: Vec<String>,
    inputs: Vec<String>,
    tree: Option<String>,
    access: Option<PythonAccess>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = CompareOptions { outputs, inputs, tree, access: access.unwrap_or_default().0 };
    let interrupted = || ReadError::new(ReadErrorKind::Refused, "", "the comparison was interrupted");
    let mut signal = None;
    let mut go_on = || {
        Python::attach(|py| py.check_signals()).map_err(|error| {
            signal = Some(error);
            interrupted()
        })
    };
    let compared = detached(py, "", || compare_files(&options, &mut go_on));
    if let Some(error) = signal {
        return Err(error);
    }
    let compared = compared?;
    let about = PyDict::new(py);
    let trees = compared.trees.into_iter().map(|tree| {
        let row = PyDict::new(py);
        row.set_item("path", tree.path)?;
        row.set_item("entries", tree.entries)?;
        row.set_item("baskets", tree.baskets_count)?;
        row.set_item("branches", tree.branches_count)?;
        row.set_item("same", tree.same)?;
        row.set_item("differing", tree.differing)?;
        row.set_item("differences", tree.differences)?;
        Ok(row)
    });
    about.set_item("trees", trees.collect::<PyResult<Vec<_>>>()?)?;
    about.set_item("objects", compared.objects_count)?;
    about.set_item("differences", compared.differences)?;
    Ok(about)
}

fn about(py: Python<'_>, merged: Merged) -> PyResult<Bound<'_, PyDict>> {
    let about = PyDict::new(py);
    about.set_item("outputs", merged.outputs)?;
    about.set_item("files", merged.files_count)?;
    about.set_item("trees", merged.trees_count)?;
    about.set_item("entries", merged.entries_count)?;
    about.set_item("baskets", merged.baskets_count)?;
    about.set_item("basket_bytes", merged.basket_bytes)?;
    about.set_item("objects", merged.objects_count)?;
    about.set_item("size_bytes", merged.size_bytes)?;
    about.set_item("left_out", merged.left_out)?;
    about.set_item("notes", merged.notes)?;
    let skipped: Vec<(String, String)> =
        merged.skipped.into_iter().map(|(path, error)| (path, error.message)).collect();
    about.set_item("skipped", skipped)?;
    Ok(about)
}
