"""Tests of uproot that Branchline does not pass on purpose, each with the reason; docs/moving says so to users."""

from __future__ import annotations

SETS = "a std::set is a list, as in the awkward array"
LOG = "a virtual array logs each branch once; uproot logs each of its buffers"
MESSAGE = "the same call is refused, in other words"
SUBFIELDS = "fields below fields are named by their paths; how='nested' gives records"

#: Reasons by file and function.
DIFFERENT: dict[str, str] = {
    "test_0009_nested_directories.py::test": "file.path is the path of the file, not of the directory in it",
    **{
        f"test_0031_test_stl_containers.py::test_{name}": SETS
        for name in (
            "vector_set_int32",
            "vector_set_string",
            "set_int32",
            "set_string",
            "map_int32_set_int16",
            "map_int32_set_string",
            "map_string_set_int16",
            "map_string_set_string",
            "map_int32_vector_set_int16",
        )
    },
    "test_0087_memberwise_splitting_not_implemented_messages.py::test_issue475": "Branchline reads what uproot refuses",
    "test_0520_dynamic_classes_cant_be_abc_subclasses.py::test_pickle": "the pickle holds a class of uproot",
    "test_1250_rntuple_improvements.py::test_field_class": "a branch that nobody holds is made anew",
    "test_1393_TTree_virtual_arrays.py::test_ttree_virtual_arrays_with_log": LOG,
    "test_1393_TTree_virtual_arrays.py::test_ttree_virtual_arrays_nonsense_kwargs_combinations": MESSAGE,
    "test_1503_rntuple_virtual_arrays.py::test_rntuple_virtual": LOG,
    "test_1503_rntuple_virtual_arrays.py::test_rntuple_virtual_arrays_with_log": LOG,
    "test_1503_rntuple_virtual_arrays.py::test_rntuple_virtual_arrays_nonsense_kwargs_combinations": MESSAGE,
    "test_1648_interpretation_dtype_byteorder.py::test_interpretation_dtype_and_byteorder": "a branch has one type",
    "test_1736_rntuple_filter_subfields.py::test_selection": SUBFIELDS,
}
