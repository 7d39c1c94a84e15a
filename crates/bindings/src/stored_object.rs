//! Objects of a file for Python. Members with a single value become Python numbers and strings directly, which costs
//! less than creating a NumPy array for each member.

use branchline_engine::read::decode::chunk::Values;
use branchline_format::column::Column;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyString};
use pyo3::IntoPyObjectExt;

use crate::column::column_to_python;

/// An object with its class, and its members by name. A member is a number, a string, an object, or a column with one
/// value.
#[pyclass(frozen, module = "branchline._core")]
pub struct StoredObject {
    #[pyo3(get)]
    class_name: String,
    #[pyo3(get)]
    members: Py<PyDict>,
}

/// Converts a column's only value.
pub fn value_to_python(py: Python<'_>, column: Values) -> PyResult<Py<PyAny>> {
    if let Some(single) = single_to_python(py, &column)? {
        return Ok(single);
    }
    match column {
        Column::Record { class_name, count: 1, members } => {
            let by_name = PyDict::new(py);
            for (name, member) in members {
                by_name.set_item(PyString::intern(py, &name), value_to_python(py, member)?)?;
            }
            let object = StoredObject { class_name: class_name.unwrap_or_default(), members: by_name.unbind() };
            Ok(Py::new(py, object)?.into_any())
        }
        column => Ok(column_to_python(py, column)?.into_any()),
    }
}

/// Converts a single number or string. Returns None for any other value.
fn single_to_python(py: Python<'_>, column: &Values) -> PyResult<Option<Py<PyAny>>> {
    let single = match column {
        Column::Flat { dtype, values } => number_to_python(py, dtype, values.bytes())?,
        Column::Text { offsets, bytes } => {
            text_in(offsets.bytes(), bytes.bytes()).map(|text| PyString::new(py, text).into_any().unbind())
        }
        Column::Regular { .. } | Column::List { .. } | Column::Record { .. } | Column::Tuple { .. } => None,
        Column::Option { .. } | Column::Union { .. } => None,
    };
    Ok(single)
}

/// Converts a single number given as bytes in native byte order.
fn number_to_python(py: Python<'_>, dtype: &str, bytes: &[u8]) -> PyResult<Option<Py<PyAny>>> {
    macro_rules! number {
        ($of:ty) => {
            bytes.try_into().ok().map(|raw| <$of>::from_ne_bytes(raw).into_py_any(py)).transpose()
        };
    }
    match (dtype, bytes) {
        ("b1", [value]) => Ok(Some(PyBool::new(py, *value != 0).to_owned().into_any().unbind())),
        ("i1", _) => number!(i8),
        ("u1", _) => number!(u8),
        ("i2", _) => number!(i16),
        ("u2", _) => number!(u16),
        ("i4", _) => number!(i32),
        ("u4", _) => number!(u32),
        ("i8", _) => number!(i64),
        ("u8", _) => number!(u64),
        ("f4", _) => number!(f32),
        ("f8", _) => number!(f64),
        _ => Ok(None),
    }
}

/// Returns the only string of a column. Returns None if the column does not have exactly one string, or if the string
/// is not valid UTF-8.
fn text_in<'a>(offsets: &[u8], letters: &'a [u8]) -> Option<&'a str> {
    let (offsets, []) = offsets.as_chunks() else { return None };
    let [start, end] = offsets else { return None };
    let [start, end] = [start, end].map(|raw| usize::try_from(i64::from_ne_bytes(*raw)).ok());
    std::str::from_utf8(letters.get(start?..end?)?).ok()
}
