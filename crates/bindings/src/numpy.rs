//! Creates NumPy arrays over the engine's memory with NumPy's C API. Each array needs two Python objects. With
//! `numpy.frombuffer`, each array would need five objects, of which the garbage collector traverses four. This matters
//! for trees with hundreds of columns.

use std::ffi::{c_int, c_void};

use branchline_slab::Buffer as Values;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::buffer::Buffer;

/// NumPy's names of the numeric types; "unknown" stands for columns without values.
pub const DTYPES: [&str; 13] = ["b1", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "unknown"];

/// Type of `PyArray_NewFromDescr`. Arguments: class, data type (its reference is stolen), number of dimensions, shape,
/// strides, memory, flags, and an object that is passed to `__array_finalize__`.
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
/// Type of `PyArray_SetBaseObject`. Arguments: the array, and the owner of its memory (whose reference is stolen).
type SetBaseObject = unsafe extern "C" fn(*mut ffi::PyObject, *mut ffi::PyObject) -> c_int;

// Indices in NumPy's C API table, which never change (see NumPy's numpy_api.py).
const NEW_FROM_DESCR: usize = 94;
const SET_BASE_OBJECT: usize = 282;
// Flags of a read-only array.
const C_CONTIGUOUS: c_int = 1;
const ALIGNED: c_int = 0x100;

/// Objects and functions of NumPy needed to create arrays.
struct NumPy {
    array_class: Py<PyAny>,
    /// Data types with their item sizes, in the order of `DTYPES`.
    types: Vec<(Py<PyAny>, usize)>,
    new_from_descr: NewFromDescr,
    set_base_object: SetBaseObject,
}

static NUMPY: PyOnceLock<NumPy> = PyOnceLock::new();

impl NumPy {
    fn load(py: Python<'_>) -> PyResult<Self> {
        let numpy = py.import("numpy")?;
        // NumPy 1 has the module under the second name.
        let inner = py.import("numpy._core._multiarray_umath");
        let inner = inner.or_else(|_| py.import("numpy.core._multiarray_umath"))?;
        let capsule = inner.getattr("_ARRAY_API")?;
        // SAFETY: NumPy creates this capsule without a name.
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
            // SAFETY: in every version of NumPy's table, this index has held this function.
            new_from_descr: unsafe { std::mem::transmute::<*const c_void, NewFromDescr>(*table.add(NEW_FROM_DESCR)) },
            // SAFETY: in every version of NumPy's table, this index has held this function.
            set_base_object: unsafe {
                std::mem::transmute::<*const c_void, SetBaseObject>(*table.add(SET_BASE_OBJECT))
            },
        })
    }
}

/// Creates a read-only array of numbers over the memory of `values`. The array keeps the memory alive.
pub fn array_of(py: Python<'_>, dtype: &str, values: Values) -> PyResult<Py<PyAny>> {
    let numpy = NUMPY.get_or_try_init(py, || NumPy::load(py))?;
    let place = DTYPES.iter().position(|known| *known == dtype);
    let known = place.and_then(|place| numpy.types.get(place));
    let (of_type, size) = known.ok_or_else(|| PyValueError::new_err(format!("unknown data type {dtype:?}")))?;
    let owner = Bound::new(py, Buffer::values(values))?;
    let bytes = owner.get().bytes();
    if !bytes.len().is_multiple_of(*size) {
        return Err(PyValueError::new_err(format!("{} bytes are not a multiple of the item size {size}", bytes.len())));
    }
    let count = (bytes.len() / size) as isize;
    let aligned = if (bytes.as_ptr() as usize).is_multiple_of(*size) { ALIGNED } else { 0 };
    // SAFETY: NumPy gets a class, a reference to a data type, and one dimension with as many numbers as the memory
    // holds. The memory is read-only, never changes, and lives as long as `owner`; the array gets a reference to
    // `owner` before anything else can use the array. `new_from_descr` steals the reference to the data type, and
    // `set_base_object` steals the reference to `owner`, even if they fail.
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
