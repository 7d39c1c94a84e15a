//! Arrays of NumPy over memory of the engine, made through NumPy's interface for C: two objects for each array. For
//! `numpy.frombuffer` they are five, and Python's collector goes through four of them; trees have hundreds of columns.

use std::ffi::{c_int, c_void};

use branchline_slab::Buffer as Values;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::buffer::Buffer;

/// NumPy's name of a type of numbers; where there are no values, none is known.
pub const DTYPES: [&str; 13] = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "unknown"];

/// `PyArray_NewFromDescr`: class, type of the numbers (a reference is taken), number of dimensions, these, strides,
/// memory, flags and an object that is handed on.
type NewFromDescr = unsafe extern "C" fn(
    *mut ffi::PyTypeObject,
    *mut ffi::PyObject,
    c_int,
    *const isize,
    *const isize,
    *mut c_void,
    c_int,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;
/// `PyArray_SetBaseObject`: array, and the object that owns its memory (a reference is taken).
type SetBaseObject = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

// Places in NumPy's table of functions, which never change (numpy_api.py of NumPy says so).
const NEW_FROM_DESCR: usize = 94;
const SET_BASE_OBJECT: usize = 282;
// Flags of an array that may not be written to.
const C_CONTIGUOUS: c_int = 1;
const ALIGNED: c_int = 0x100;

/// What NumPy is called with.
struct NumPy {
    array_class: Py<PyAny>,
    /// In the order of `DTYPES`.
    types: Vec<(Py<PyAny>, usize)>,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
}

static NUMPY: PyOnceLock<NumPy> = PyOnceLock::new();

impl NumPy {
    fn load(py: Python<'_>) -> PyResult<Self> {
        let numpy = py.import("numpy")?;
        // Its name before NumPy 2.
        let inner = py.import("numpy._core._multiarray_umath");
        let inner = inner.or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = inner.getattr("_ARRAY_API")?;
        // SAFETY: the capsule has no name.
        let table = unsafe { ffi::PyCapsule_GetPointer(capsule.as_ptr(), std::ptr::null()) };
        if table.is_null() {
            return Err(PyErr::fetch(py));
        }
        let table = table.cast::<*const c_void>();
        let type_of = |name: &&str| {
            let made = numpy.call_method1("dtype", (if *name == "unknown" { "u1" } else { name },))?;
            let size = made.getattr("itemsize")?.extract()?;
            Ok((made.unbind(), size))
        };
        Ok(Self {
            array_class: numpy.getattr("ndarray")?.unbind(),
            types: DTYPES.iter().map(type_of).collect::<PyResult<_>>()?,
            // SAFETY: these entries of the table are these functions, in each version since the table is there.
            new_from_descr: unsafe { std::mem::transmute::<*const c_void, NewFromDescr>(*table.add(NEW_FROM_DESCR)) },
            // SAFETY: as above.
            set_base_object: unsafe {
                std::mem::transmute::<*const c_void, SetBaseObject>(*table.add(SET_BASE_OBJECT))
            },
        })
    }
}

/// An array of numbers of a type over the memory of these values, which it keeps; it cannot be written to.
pub fn array_of(py: Python<'_>, dtype: &str, values: Values) -> PyResult<Py<PyAny>> {
    let numpy = NUMPY.get_or_try_init(py, || NumPy::load(py))?;
    let place = DTYPES.iter().position(|known| *known == dtype);
    let known = place.and_then(|place| numpy.types.get(place));
    let (of_type, size) = known.ok_or_else(|| PyValueError::new_err(format!("{dtype} is no type of numbers")))?;
    let owner = Bound::new(py, Buffer::values(values))?;
    let bytes = owner.get().bytes();
    if !bytes.len().is_multiple_of(*size) {
        return Err(PyValueError::new_err(format!("{} bytes are no numbers of {size} bytes each", bytes.len())));
    }
    let count = (bytes.len() / size) as isize;
    let aligned = if (bytes.as_ptr() as usize).is_multiple_of(*size) { ALIGNED } else { 0 };
    // SAFETY: NumPy gets a class, a reference to a type, and one dimension with as many numbers as the memory has. The
    // memory lives as long as `owner`, to which the array gets a reference before anything else can use it; it is
    // read-only and never changes. Both functions take their reference even where they fail.
    let array = unsafe {
        let made = (numpy.new_from_descr)(
            numpy.array_class.as_ptr().cast(),
            of_type.clone_ref(py).into_ptr(),
            1,
            &raw const count,
            std::ptr::null(),
            bytes.as_ptr().cast::<c_void>().cast_mut(),
            C_CONTIGUOUS | aligned,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, made)?;
        if (numpy.set_base_object)(array.as_ptr(), owner.into_ptr()) < 0 {
            return Err(PyErr::fetch(py));
        }
        array
    };
    Ok(array.unbind())
}
