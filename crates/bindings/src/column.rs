//! Columns of values that the engine and Python exchange.

use branchline_engine::read::decode::chunk::{Chunk, Values};
use branchline_engine::write::columns::Values as ColumnValues;
use branchline_format::column;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::to_python;
use crate::numpy::{array_of, DTYPES};

/// Data type of offsets.
const OFFSETS: &str = "i8";
const BYTES: &str = "u1";
/// Maximum nesting depth of columns from Python. Columns read from files are always shallower.
const DEPTH_MAX: usize = 64;

/// The values of a branch in NumPy arrays. `content` and `contents` are nested columns.
#[pyclass(frozen, module = "branchline._core")]
pub enum Column {
    /// Numbers in native byte order. `dtype` is NumPy's name of the type, or "unknown" if there are no values.
    Flat { dtype: String, values: Py<PyAny> },
    /// Arrays of a fixed length: each has `size` values.
    Regular { size: usize, content: Py<Column> },
    /// Lists. `offsets` has the 64-bit index of each list's first element, followed by the total number of elements.
    List { offsets: Py<PyAny>, content: Py<Column> },
    /// Strings. `letters` has the bytes of all strings, and `offsets` the positions of the strings in it, as in `List`.
    Text { offsets: Py<PyAny>, letters: Py<PyAny> },
    /// Records, optionally of a C++ class.
    Record { names: Vec<String>, contents: Vec<Py<Column>>, count: usize, class_name: Option<String> },
    /// Records with unnamed fields.
    Tuple { contents: Vec<Py<Column>>, count: usize },
    /// Optional values. `valid` has one byte per value, 1 if the value is present; `content` has only the values that
    /// are present.
    Option { valid: Py<PyAny>, content: Py<Column> },
    /// Values of several types. For each value, `tags` has one byte with the index of the value's type in `contents`.
    Union { tags: Py<PyAny>, contents: Vec<Py<Column>> },
}

fn all_to_python(py: Python<'_>, columns: Vec<Values>) -> PyResult<Vec<Py<Column>>> {
    columns.into_iter().map(|one| column_to_python(py, one)).collect()
}

/// Converts a column of the engine to Python.
pub fn column_to_python(py: Python<'_>, column: Values) -> PyResult<Py<Column>> {
    let made = match column {
        column::Column::Flat { dtype, values } => {
            Column::Flat { dtype: dtype.to_string(), values: array_of(py, dtype, values)? }
        }
        column::Column::Regular { size, content } => Column::Regular { size, content: column_to_python(py, *content)? },
        column::Column::List { offsets, content } => {
            Column::List { offsets: array_of(py, OFFSETS, offsets)?, content: column_to_python(py, *content)? }
        }
        column::Column::Text { offsets, bytes } => {
            Column::Text { offsets: array_of(py, OFFSETS, offsets)?, letters: array_of(py, BYTES, bytes)? }
        }
        column::Column::Record { class_name, count, members } => {
            let (names, contents): (Vec<String>, Vec<Values>) = members.into_iter().unzip();
            Column::Record { names, contents: all_to_python(py, contents)?, count, class_name }
        }
        column::Column::Tuple { count, items } => Column::Tuple { contents: all_to_python(py, items)?, count },
        column::Column::Option { valid, content } => {
            Column::Option { valid: array_of(py, BYTES, valid)?, content: column_to_python(py, *content)? }
        }
        column::Column::Union { tags, contents } => {
            Column::Union { tags: array_of(py, BYTES, tags)?, contents: all_to_python(py, contents)? }
        }
    };
    Ok(made.into_pyobject(py)?.unbind())
}

/// Takes the columns out of a finished chunk. The columns can be taken only once.
pub fn columns_to_python<'py>(py: Python<'py>, chunk: &Chunk) -> PyResult<Bound<'py, PyList>> {
    let columns = chunk.take().map_err(|error| to_python(py, &error))?;
    PyList::new(py, all_to_python(py, columns)?)
}

/// A column whose memory belongs to Python. The memory is kept alive.
pub struct Given {
    form: column::Column<PyUntypedBuffer, PyUntypedBuffer>,
}

impl Given {
    /// Converts a Python column; the inverse of `column_to_python`.
    pub fn of(py: Python<'_>, column: &Py<Column>) -> PyResult<Self> {
        Ok(Self { form: column_of(py, column, 0)? })
    }

    /// Returns the values. As in NumPy, the result is undefined if another thread modifies the arrays at the same time.
    pub fn values(&self) -> PyResult<ColumnValues<'_>> {
        values_of(&self.form)
    }
}

fn values_of(form: &column::Column<PyUntypedBuffer, PyUntypedBuffer>) -> PyResult<ColumnValues<'_>> {
    use column::Column as Form;
    Ok(match form {
        Form::Flat { dtype, values } => Form::Flat { dtype, values: bytes_in(values) },
        Form::Regular { size, content } => Form::Regular { size: *size, content: Box::new(values_of(content)?) },
        Form::List { offsets, content } => {
            Form::List { offsets: numbers_in(offsets)?, content: Box::new(values_of(content)?) }
        }
        Form::Text { offsets, bytes } => Form::Text { offsets: numbers_in(offsets)?, bytes: bytes_in(bytes) },
        Form::Record { class_name, count, members } => {
            let members = members.iter().map(|(name, one)| Ok((name.clone(), values_of(one)?)));
            let members = members.collect::<PyResult<Vec<_>>>()?;
            Form::Record { class_name: class_name.clone(), count: *count, members }
        }
        Form::Tuple { count, items } => {
            Form::Tuple { count: *count, items: items.iter().map(values_of).collect::<PyResult<_>>()? }
        }
        Form::Option { valid, content } => {
            Form::Option { valid: bytes_in(valid), content: Box::new(values_of(content)?) }
        }
        Form::Union { tags, contents } => {
            Form::Union { tags: bytes_in(tags), contents: contents.iter().map(values_of).collect::<PyResult<_>>()? }
        }
    })
}

fn column_of(
    py: Python<'_>,
    column: &Py<Column>,
    depth: usize,
) -> PyResult<column::Column<PyUntypedBuffer, PyUntypedBuffer>> {
    let wrong = |what: &str| PyValueError::new_err(format!("not a column: {what}"));
    if depth > DEPTH_MAX {
        return Err(wrong("nested too deeply"));
    }
    let inner = |content: &Py<Column>| column_of(py, content, depth + 1);
    let all = |contents: &[Py<Column>]| contents.iter().map(inner).collect::<PyResult<Vec<_>>>();
    Ok(match column.get() {
        Column::Flat { dtype, values } => {
            let known = DTYPES.iter().find(|known| *known == dtype).ok_or_else(|| wrong(dtype))?;
            column::Column::Flat { dtype: known, values: buffer_of(py, values)? }
        }
        Column::Regular { size, content } => {
            column::Column::Regular { size: *size, content: Box::new(inner(content)?) }
        }
        Column::List { offsets, content } => {
            column::Column::List { offsets: buffer_of(py, offsets)?, content: Box::new(inner(content)?) }
        }
        Column::Text { offsets, letters } => {
            column::Column::Text { offsets: buffer_of(py, offsets)?, bytes: buffer_of(py, letters)? }
        }
        Column::Record { names, contents, count, class_name } => {
            if names.len() != contents.len() {
                return Err(wrong("a record needs as many names as contents"));
            }
            let members = names.iter().cloned().zip(all(contents)?).collect();
            column::Column::Record { class_name: class_name.clone(), count: *count, members }
        }
        Column::Tuple { contents, count } => column::Column::Tuple { count: *count, items: all(contents)? },
        Column::Option { valid, content } => {
            column::Column::Option { valid: buffer_of(py, valid)?, content: Box::new(inner(content)?) }
        }
        Column::Union { tags, contents } => {
            column::Column::Union { tags: buffer_of(py, tags)?, contents: all(contents)? }
        }
    })
}

fn buffer_of(py: Python<'_>, values: &Py<PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(values.bind(py))?;
    if buffer.is_c_contiguous() {
        return Ok(buffer);
    }
    Err(PyValueError::new_err("not a column: the values are not contiguous"))
}

fn bytes_in(buffer: &PyUntypedBuffer) -> &[u8] {
    if buffer.len_bytes() == 0 {
        return &[]; // The pointer of an empty buffer may be null.
    }
    // SAFETY: the buffer is contiguous and keeps its memory alive. If another thread modifies the arrays during a call,
    // only values can be wrong (as in NumPy), because every offset is checked when it is used.
    unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) }
}

fn numbers_in(buffer: &PyUntypedBuffer) -> PyResult<&[i64]> {
    // SAFETY: every bit pattern is a valid integer.
    match unsafe { bytes_in(buffer).align_to::<i64>() } {
        ([], numbers, []) => Ok(numbers),
        _ => Err(PyValueError::new_err("not a column: the offsets are not aligned 64-bit integers")),
    }
}
