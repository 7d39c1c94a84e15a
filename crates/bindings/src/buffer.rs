//! Decoded values as Python objects: read-only buffers, and columns as nested tuples of them.

use std::ffi::{c_int, c_void};

use branchline_engine::read::chunk::{Chunk, Values};
use branchline_format::column::Column;
use branchline_slab::Buffer as Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::errors::to_python;

/// Bytes of the engine, readable by NumPy without a copy.
#[pyclass(frozen)]
pub struct Buffer(Bytes);

impl Buffer {
    /// 64-bit numbers.
    pub fn numbers(numbers: Vec<i64>) -> Self {
        Self(Bytes::Numbers(numbers))
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.0.bytes().len()
    }

    /// # Safety
    /// Called by Python with a valid `view`, which it releases before this object goes.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() || flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the arrays of a chunk are read-only"));
        }
        let bytes = slf.get().0.bytes();
        // SAFETY: the bytes live as long as `slf`, to which PyBuffer_FillInfo makes the view hold a reference; they
        // are read-only and never change.
        let filled = unsafe {
            let start = bytes.as_ptr().cast::<c_void>().cast_mut();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, bytes.len() as isize, 1, flags)
        };
        if filled == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// A column as nested tuples: `("flat", dtype, values)`, `("regular", size, content)`, `("list", offsets, content)`,
/// `("text", offsets, bytes)`, `("record", names, contents, count, class name)`, `("tuple", contents, count)`,
/// `("option", valid, content)` or `("union", tags, contents)`.
pub fn column_to_python(py: Python<'_>, column: Values) -> PyResult<Bound<'_, PyAny>> {
    let tuple = match column {
        Column::Flat { dtype, values } => ("flat", dtype, Buffer(values)).into_pyobject(py)?,
        Column::Regular { size, content } => ("regular", size, column_to_python(py, *content)?).into_pyobject(py)?,
        Column::List { offsets, content } => {
            ("list", Buffer(offsets), column_to_python(py, *content)?).into_pyobject(py)?
        }
        Column::Text { offsets, bytes } => ("text", Buffer(offsets), Buffer(bytes)).into_pyobject(py)?,
        Column::Record { class_name, count, members } => {
            let (names, columns): (Vec<String>, Vec<Values>) = members.into_iter().unzip();
            ("record", names, all_to_python(py, columns)?, count, class_name).into_pyobject(py)?
        }
        Column::Tuple { count, items } => ("tuple", all_to_python(py, items)?, count).into_pyobject(py)?,
        Column::Option { valid, content } => {
            ("option", Buffer(valid), column_to_python(py, *content)?).into_pyobject(py)?
        }
        Column::Union { tags, contents } => ("union", Buffer(tags), all_to_python(py, contents)?).into_pyobject(py)?,
    };
    Ok(tuple.into_any())
}

fn all_to_python(py: Python<'_>, columns: Vec<Values>) -> PyResult<Bound<'_, PyTuple>> {
    let contents: PyResult<Vec<_>> = columns.into_iter().map(|one| column_to_python(py, one)).collect();
    PyTuple::new(py, contents?)
}

/// The columns of a finished chunk, which gives them away once.
pub fn columns_to_python<'py>(py: Python<'py>, chunk: &Chunk) -> PyResult<Bound<'py, PyList>> {
    let columns = chunk.take().map_err(|error| to_python(py, &error))?;
    let converted: PyResult<Vec<_>> = columns.into_iter().map(|column| column_to_python(py, column)).collect();
    PyList::new(py, converted?)
}
