//! Merges and compares files, for Python.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use branchline_engine::error::{ReadError, ReadErrorKind};
use branchline_engine::write::{self, compare as comparison, ClusterSize, Order, Selection};
use branchline_format::compress::{InvalidSetting, Setting};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::access::PythonAccess;
use crate::errors::detached;

/// Fields of the Python class `branchline.writing.merging.merge.MergeRequest`.
#[derive(FromPyObject)]
struct MergeRequest {
    inputs: Vec<String>,
    access: Option<PythonAccess>,
    output: PathBuf,
    tree: Option<String>,
    order: String,
    codec: Option<String>,
    branches: HashMap<String, HashSet<String>>,
    layout: Option<BasketLayout>,
    selections: HashMap<String, EntrySelection>,
    selected: Option<String>,
    replace: bool,
    size_bytes_max: Option<u64>,
    fill_missing_branches: bool,
    skip_bad_files: bool,
    verify: bool,
    sync: bool,
    resume: bool,
    limits: MergeLimits,
}

/// Fields of the Python class `branchline.writing.merging.merge.BasketLayout`.
#[derive(FromPyObject)]
struct BasketLayout {
    basket_bytes: Option<u32>,
    cluster_entries: Option<u64>,
    cluster_bytes: Option<u64>,
}

/// Fields of the Python class `branchline.writing.merging.merge.EntrySelection`.
#[derive(FromPyObject)]
struct EntrySelection {
    bits: Vec<u8>,
    entries_count: u64,
}

/// Fields of the Python class `branchline.writing.merging.merge.MergeLimits`.
#[derive(FromPyObject)]
struct MergeLimits {
    memory_bytes: u64,
    journal_bytes: u64,
}

impl From<BasketLayout> for write::BasketLayout {
    fn from(layout: BasketLayout) -> Self {
        let clusters = layout.cluster_entries.map(ClusterSize::Entries);
        let clusters = clusters.or(layout.cluster_bytes.map(ClusterSize::Bytes));
        Self { basket_bytes: layout.basket_bytes, clusters }
    }
}

impl MergeRequest {
    fn checked(self) -> PyResult<write::MergeRequest> {
        let order = match self.order.as_str() {
            "offset" => Order::Offset,
            "branch" => Order::Branch,
            "entry" => Order::Entry,
            other => {
                return Err(PyValueError::new_err(format!(
                    "unknown order {other:?}; choose one of offset, branch, entry"
                )))
            }
        };
        let codec: Option<Setting> = self
            .codec
            .map(|codec| codec.parse())
            .transpose()
            .map_err(|error: InvalidSetting| PyValueError::new_err(error.to_string()))?;
        let selection = |(path, EntrySelection { bits, entries_count })| {
            let bits_count = bits.len().saturating_mul(8);
            let message = || format!("the selection of {path} has {bits_count} bits for {entries_count} entries");
            let selection = Selection::new(bits, entries_count).ok_or_else(|| PyValueError::new_err(message()))?;
            Ok((path, Arc::new(selection)))
        };
        let MergeLimits { memory_bytes, journal_bytes } = self.limits;
        Ok(write::MergeRequest {
            inputs: self.inputs,
            access: self.access.unwrap_or_default().0,
            output: self.output,
            tree: self.tree,
            branches: self.branches,
            order,
            codec,
            layout: self.layout.map(Into::into),
            selections: self.selections.into_iter().map(selection).collect::<PyResult<_>>()?,
            selected: self.selected,
            replace: self.replace,
            size_bytes_max: self.size_bytes_max,
            fills_missing_branches: self.fill_missing_branches,
            skips_bad_files: self.skip_bad_files,
            verifies: self.verify,
            skips_sync: !self.sync,
            resumes: self.resume,
            limits: write::MergeLimits { memory_bytes, journal_bytes },
        })
    }
}

/// A merge that one thread runs. Other threads may query its progress and stop it.
#[pyclass(frozen)]
pub struct Merge(write::merge::Merge);

/// Result of a merge.
#[pyclass(frozen, get_all)]
pub struct Merged {
    outputs: Vec<PathBuf>,
    files: u64,
    trees: u64,
    entries: u64,
    baskets: u64,
    basket_bytes: u64,
    objects: u64,
    size_bytes: u64,
    left_out: Vec<String>,
    notes: Vec<String>,
    filled: Vec<FilledBranch>,
    skipped: Vec<SkippedInput>,
}

/// A branch that is missing from some inputs. Its entries from those inputs are filled with 0 or empty values.
#[pyclass(frozen, get_all)]
#[derive(Clone)]
pub struct FilledBranch {
    tree: String,
    name: String,
    files: u64,
    entries: u64,
}

impl From<write::FilledColumn> for FilledBranch {
    fn from(filled: write::FilledColumn) -> Self {
        let write::FilledColumn { tree, name, files_count, entries_count } = filled;
        Self { tree, name, files: files_count, entries: entries_count }
    }
}

/// A skipped input, with the reason why it was skipped.
#[pyclass(frozen, get_all)]
#[derive(Clone)]
pub struct SkippedInput {
    path: String,
    reason: String,
}

#[pymethods]
impl Merge {
    #[new]
    fn new(request: MergeRequest) -> PyResult<Self> {
        Ok(Self(write::merge::Merge::new(request.checked()?)))
    }

    /// Number of files merged or skipped.
    #[getter]
    fn files_done(&self) -> u64 {
        self.0.progress().files_done
    }

    /// Number of bytes of baskets and pages already written.
    #[getter]
    fn bytes_done(&self) -> u64 {
        self.0.progress().bytes_done
    }

    /// Requests that the merge stop and remove its output.
    fn stop(&self) {
        self.0.stop();
    }

    /// Runs the merge.
    fn run(&self, py: Python<'_>) -> PyResult<Merged> {
        let merged = detached(py, &self.0.output(), || self.0.run())?;
        let skipped = merged.skipped.into_iter();
        Ok(Merged {
            outputs: merged.outputs,
            files: merged.files_count,
            trees: merged.trees_count,
            entries: merged.entries_count,
            baskets: merged.baskets_count,
            basket_bytes: merged.basket_bytes,
            objects: merged.objects_count,
            size_bytes: merged.size_bytes,
            left_out: merged.left_out,
            notes: merged.notes,
            filled: merged.filled.into_iter().map(FilledBranch::from).collect(),
            skipped: skipped.map(|one| SkippedInput { path: one.path, reason: one.error.message }).collect(),
        })
    }
}

/// Result of comparing outputs with inputs.
#[pyclass(frozen, get_all)]
pub struct Compared {
    trees: Vec<ComparedTree>,
    objects: u64,
    differences: Vec<String>,
}

/// A compared tree.
#[pyclass(frozen, get_all)]
#[derive(Clone)]
pub struct ComparedTree {
    path: String,
    entries: u64,
    baskets: u64,
    branches: u64,
    same: Vec<String>,
    differing: Vec<DifferingBranch>,
    differences: Vec<String>,
    filled: Vec<FilledBranch>,
}

/// A branch whose baskets differ, with a description of the difference.
#[pyclass(frozen, get_all)]
#[derive(Clone)]
pub struct DifferingBranch {
    name: String,
    reason: String,
}

/// Compares outputs with inputs, basket by basket.
#[pyfunction]
pub fn compare(
    py: Python<'_>,
    outputs: Vec<String>,
    inputs: Vec<String>,
    tree: Option<String>,
    access: Option<PythonAccess>,
) -> PyResult<Compared> {
    let request = comparison::CompareRequest { outputs, inputs, tree, access: access.unwrap_or_default().0 };
    let interrupted = || ReadError::new(ReadErrorKind::Refused, "", "the comparison was interrupted");
    let mut signal = None;
    let mut check = || {
        Python::attach(|py| py.check_signals()).map_err(|error| {
            signal = Some(error);
            interrupted()
        })
    };
    let path = request.outputs.join(", ");
    let compared = detached(py, &path, || comparison::compare(&request, &mut check));
    if let Some(error) = signal {
        return Err(error);
    }
    let compared = compared?;
    let trees = compared.trees.into_iter().map(ComparedTree::from).collect();
    Ok(Compared { trees, objects: compared.objects_count, differences: compared.differences })
}

impl From<comparison::ComparedTree> for ComparedTree {
    fn from(tree: comparison::ComparedTree) -> Self {
        let differing = tree.differing.into_iter();
        Self {
            path: tree.path,
            entries: tree.entries_count,
            baskets: tree.baskets_count,
            branches: tree.branches_count,
            same: tree.same,
            differing: differing.map(|branch| DifferingBranch { name: branch.name, reason: branch.reason }).collect(),
            differences: tree.differences,
            filled: tree.filled.into_iter().map(FilledBranch::from).collect(),
        }
    }
}
