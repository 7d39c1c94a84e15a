//! Files of objects whose bytes Python makes.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use branchline_engine::write::{NewObject, ObjectsFile as Objects};
use branchline_format::compress::Setting;
use branchline_format::write::datime;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::errors::to_python;

/// A ROOT file of histograms that is being written.
#[pyclass(frozen)]
pub struct ObjectsFile(Mutex<Option<Objects>>);

impl ObjectsFile {
    fn take(&self) -> Option<Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[pymethods]
impl ObjectsFile {
    /// Begins a file, which gets its name when it is finished. `codec` is written like `"zstd"` or `"zlib:6"`.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, replace: bool, codec: &str) -> PyResult<Self> {
        let setting: Setting = codec.parse().map_err(|error| PyValueError::new_err(format!("{error}")))?;
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let begun = py.detach(|| Objects::create(&path, replace, setting, datime(seconds)));
        Ok(Self(Mutex::new(Some(begun.map_err(|error| to_python(py, &error))?))))
    }

    /// Writes an object of a class with its name, title and bytes into a directory, which is made if need be.
    fn add(
        &self,
        py: Python<'_>,
        directories: Vec<String>,
        class_name: String,
        name: String,
        title: String,
        content: &[u8],
    ) -> PyResult<()> {
        let object = NewObject { class_name, name, title, bytes: content.to_vec() };
        let added = py.detach(|| {
            let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_mut().map(|file| file.add(&directories, object))
        });
        added.ok_or_else(closed)?.map_err(|error| to_python(py, &error))
    }

    /// Removes the file, unless it is finished.
    fn abandon(&self) {
        drop(self.take());
    }

    /// Ends the file and returns its size in bytes.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let file = self.take().ok_or_else(closed)?;
        py.detach(|| file.finish()).map_err(|error| to_python(py, &error))
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the file is closed")
}
