//! Read-only buffers: decoded values, and bytes of a file.

use std::ffi::{c_int, c_void};

use branchline_slab::Buffer as Values;
use bytes::Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Bytes of the engine, readable by NumPy without a copy.
#[pyclass(frozen)]
pub struct Buffer(Held);

/// What a buffer holds.
enum Held {
    Values(Values),
    Stored(Bytes),
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Values(values) => values.bytes(),
            Self::Stored(bytes) => bytes,
        }
    }
}

/// A view of bytes of a file.
pub fn view_of_stored(py: Python<'_>, bytes: Bytes) -> PyResult<Py<PyMemoryView>> {
    let buffer = Buffer(Held::Stored(bytes));
    Ok(PyMemoryView::from(Bound::new(py, buffer)?.as_any())?.unbind())
}

impl Buffer {
    /// Values of a column.
    pub fn values(values: Values) -> Self {
        Self(Held::Values(values))
    }

    /// 64-bit numbers.
    pub fn numbers(numbers: Vec<i64>) -> Self {
        Self::values(Values::Numbers(numbers))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.bytes()
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
