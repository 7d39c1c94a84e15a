//! Read-only buffers with decoded values or with bytes of a file.

use std::ffi::{c_int, c_void};

use branchline_slab::Buffer as Values;
use bytes::Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;

/// Bytes owned by the engine. NumPy reads them without a copy.
#[pyclass(frozen)]
pub struct Buffer(Held);

/// Contents of a buffer.
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

/// Returns a memory view of a file's bytes.
pub fn view_of_stored(py: Python<'_>, bytes: Bytes) -> PyResult<Py<PyMemoryView>> {
    let buffer = Buffer(Held::Stored(bytes));
    Ok(PyMemoryView::from(Bound::new(py, buffer)?.as_any())?.unbind())
}

impl Buffer {
    /// Creates a buffer with the values of a column.
    pub fn values(values: Values) -> Self {
        Self(Held::Values(values))
    }

    /// Creates a buffer with 64-bit integers.
    pub fn numbers(numbers: Vec<i64>) -> Self {
        Self::values(Values::Numbers(numbers))
    }

    /// Returns the contents as bytes.
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
    ///
    /// Python calls this with a valid `view`, and releases the view before it deallocates this object.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() || flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("the buffer is read-only; copy it to get writable memory"));
        }
        let bytes = slf.get().0.bytes();
        // SAFETY: PyBuffer_FillInfo gives the view a reference to `slf`, which keeps the bytes alive; the bytes are
        // read-only and never change.
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
