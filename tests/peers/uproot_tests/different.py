"""Tests of uproot that Branchline does not pass on purpose, each with the reason; docs/moving says so to users."""

from __future__ import annotations

LOG = "a column has other buffers here than in uproot, and as many entries in the log"
MESSAGE = "the same call is refused, in other words"
SUBFIELDS = "fields below fields are named by their paths; how='nested' gives records"

#: Reasons by file and function.
DIFFERENT: dict[str, str] = {
    "test_0009_nested_directories.py::test": "file.path is the path of the file, not of the directory in it",
    "test_0087_memberwise_splitting_not_implemented_messages.py::test_issue475": "Branchline reads what uproot refuses",
    "test_0520_dynamic_classes_cant_be_abc_subclasses.py::test_pickle": "the pickle holds a class of uproot",
    "test_1393_TTree_virtual_arrays.py::test_ttree_virtual_arrays_nonsense_kwargs_combinations": MESSAGE,
    "test_1503_rntuple_virtual_arrays.py::test_rntuple_virtual_arrays_with_log": LOG,
    "test_1503_rntuple_virtual_arrays.py::test_rntuple_virtual_arrays_nonsense_kwargs_combinations": MESSAGE,
    "test_1736_rntuple_filter_subfields.py::test_selection": SUBFIELDS,
    "test_1736_rntuple_filter_subfields.py::test_selected_field_matches_its_array": SUBFIELDS,
}
