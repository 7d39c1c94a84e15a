//! Read-only buffers of decoded values.

use std::ffi::{c_int, c_void};

use branchline_slab::Buffer as Bytes;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Bytes of the engine, readable by NumPy without a copy.
#[pyclass(frozen)]
pub struct Buffer(pub Bytes);

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
