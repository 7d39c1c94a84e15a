//! Fast merge for Python.

use std::path::PathBuf;

use branchline_engine::merge::{self, MergeOptions, Order};
use branchline_format::compress::{NoSetting, Setting};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::to_python;

/// A merge, which one thread runs and others may watch and stop.
#[pyclass(frozen)]
pub struct Merge(merge::Merge);

#[pymethods]
impl Merge {
    #[new]
    #[pyo3(signature = (inputs, output, tree, order, replace, codec))]
    fn new(
        inputs: Vec<String>,
        output: PathBuf,
        tree: Option<String>,
        order: &str,
        replace: bool,
        codec: Option<&str>,
    ) -> PyResult<Self> {
        let order = match order {
            "offset" => Order::Offset,
            "branch" => Order::Branch,
            "entry" => Order::Entry,
            other => return Err(PyValueError::new_err(format!("no such order: {other}"))),
        };
        let codec: Option<Setting> =
            codec.map(str::parse).transpose().map_err(|error: NoSetting| PyValueError::new_err(error.to_string()))?;
        Ok(Self(merge::Merge::new(MergeOptions { inputs, output, tree, order, replace, codec })))
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
        let merged = py.detach(|| self.0.run()).map_err(|error| to_python(py, &error))?;
        let about = PyDict::new(py);
        about.set_item("entries", merged.entries_count)?;
        about.set_item("baskets", merged.baskets_count)?;
        about.set_item("basket_bytes", merged.basket_bytes)?;
        about.set_item("size_bytes", merged.size_bytes)?;
        about.set_item("left_out", merged.left_out)?;
        Ok(about)
    }
}
