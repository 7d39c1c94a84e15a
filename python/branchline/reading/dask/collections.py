"""`branchline.dask`: dask collections over trees in files."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import awkward as ak

from branchline.base.imports import require
from branchline.errors import BAD_FILE_ERRORS, OptionError
from branchline.reading.access import Access
from branchline.reading.arrays.libraries import library_of, numpy_of
from branchline.reading.dask.form import FormMapping, StoredColumns
from branchline.reading.dask.partition_readers import BranchReader, MappedReader, NumpyReader, Reader
from branchline.reading.dask.partitions import PartitionPlan, given_trees
from branchline.reading.request import ReadRequest, check_opening_options
from branchline.reading.trees.branch import Branch, BranchFilter
from branchline.reading.trees.selection import BranchField

if TYPE_CHECKING:
    from dask.array import Array


def dask(
    files: object,
    *,
    filter_name: object = None,
    filter_typename: object = None,
    filter_branch: BranchFilter | None = None,
    recursive: bool = True,
    full_paths: bool = False,
    step_size: int | str | None = None,
    steps_per_file: int | None = None,
    library: str = "ak",
    ak_add_doc: bool | Mapping[str, str] = False,
    allow_missing: bool = False,
    open_files: bool = True,
    form_mapping: FormMapping | None = None,
    allow_read_errors_with_report: bool | tuple[type[BaseException], ...] = False,
    known_base_form: ak.forms.Form | None = None,
    access: Access | str | None = None,
    **options: object,
) -> Any:
    """Create a dask collection over trees in files. Dask workers read only the branches that a computation needs.

    The collection is a dask-awkward array, or with ``library="np"`` a dict of dask arrays.

    ``files`` is as for ``branchline.iterate``, or ``{path: {"object_path": tree, "steps": limits}}``, where ``limits``
    are (start, stop) pairs of entries, or a list of partition boundaries. Otherwise each file is split into
    ``steps_per_file`` partitions (default 1), or into partitions of ``step_size`` entries (int) or bytes ("100 MB").

    The fields are as returned by ``Tree.arrays`` for the filters, restricted to fields that all files have.

    - ``recursive=False`` only includes top-level branches; ``full_paths`` names fields by their paths.
    - With ``open_files=False``, only the first file is opened immediately (or none, if ``known_base_form`` is given),
      and the lengths of the partitions are unknown.
    - With ``allow_missing``, files without the tree are skipped.
    - ``form_mapping`` is, as in uproot, a function from a form to a new form and an object that locates its buffers.
    - With ``allow_read_errors_with_report``, partitions that cannot be read are empty, and the result is a pair of the
      collection and a report. If exception types are given, only these exceptions are caught.
    - ``access`` is as for ``open``.

    Requires the packages of ``branchline[dask-awkward]``. Raises MissingPackageError, OptionError, DatasetError, and
    file-open errors; computing the collection raises read errors.

        >>> events = branchline.dask("data/*.root:Events")
        >>> (2 * events.Muon_pt)[:3].compute().tolist()
        [[2.0, 4.0], [], [6.0]]
    """
    check_opening_options(options)
    _check(library, step_size, steps_per_file, open_files, form_mapping, known_base_form)
    of_trees = ReadRequest.of(
        filter_name=filter_name,
        filter_typename=filter_typename,
        filter_branch=filter_branch if recursive else _at_top(filter_branch),
        ak_add_doc=ak_add_doc,
        access=access,
        allow_missing=allow_missing,
    )
    given = given_trees(files, of_trees.access)
    if given[0].steps is not None and (step_size, steps_per_file) != (None, None):
        raise OptionError(
            "steps are given both by the files and by step_size or steps_per_file",
            hint="leave out step_size and steps_per_file",
        )
    if open_files:
        plan = PartitionPlan.of(given, of_trees, step_size, steps_per_file or 1)
    else:
        plan = PartitionPlan.unopened(given, of_trees, steps_per_file or 1, known_base_form)
    plan = plan.with_full_paths() if full_paths else plan
    if library_of(library) == "np":
        return _numpy(plan, of_trees.access)
    caught = allow_read_errors_with_report
    reader = _reader(plan, of_trees, form_mapping, known_base_form)
    return _collection(replace(reader, caught=BAD_FILE_ERRORS if caught is True else caught or ()), plan)


def _check(
    library: str,
    step_size: int | str | None,
    steps_per_file: int | None,
    open_files: bool,
    form_mapping: object,
    known_base_form: object,
) -> None:
    """Raise OptionError for conflicting options, MissingPackageError if dask is not installed."""
    short = library_of(library)
    if short not in ("ak", "np"):
        raise OptionError(
            f"dask collections do not support library {library!r}", hint='use library="ak" or library="np"'
        )
    if short == "np" and not (form_mapping is None and known_base_form is None):
        raise OptionError("forms only apply to awkward arrays", hint="leave out form_mapping and known_base_form")
    if step_size is not None and steps_per_file is not None:
        raise OptionError("step_size and steps_per_file cannot be combined", hint="give one of them")
    if step_size is not None and not open_files:
        raise OptionError("step_size requires opening the files", hint="give steps_per_file, or open_files=True")
    if step_size is not None:
        ReadRequest.of(step_size=step_size)  # validates the size
    if steps_per_file is not None and steps_per_file < 1:
        raise OptionError(f"steps_per_file cannot be {steps_per_file}", hint="give 1 or more")
    if known_base_form is not None and open_files:
        raise OptionError("known_base_form requires open_files=False", hint="give open_files=False")
    require("dask", *(["dask_awkward"] if short == "ak" else []))


def _at_top(chosen: BranchFilter | None) -> BranchFilter:
    def is_kept(branch: Branch) -> object:
        return branch.top_level and (chosen is None or chosen(branch))

    return is_kept


def _reader(
    plan: PartitionPlan, request: ReadRequest, form_mapping: FormMapping | None, known_base_form: ak.forms.Form | None
) -> Reader:
    """Return the reader of awkward partitions. Raises OptionError for attributes that branches do not have."""
    if known_base_form is not None:
        stored = StoredColumns.of_form(known_base_form)
    else:
        assert plan.tree is not None
        texts = {"__doc__": "title"} if request.add_doc is True else dict(request.add_doc or {})
        stored = StoredColumns.of_tree(plan.tree, plan.fields, texts)
    access, allow_missing = request.access, request.allow_missing
    if form_mapping is None:
        branches = stored.branches()
        return BranchReader(
            form=stored.form, mapped=stored, needed=branches, access=access, allow_missing=allow_missing
        )
    base = stored.form
    if plan.tree is not None:
        base = base.copy(parameters={**base.parameters, "typenames": plan.tree.typenames()})
    form, mapped = form_mapping(base)
    return MappedReader(
        form=form,
        mapped=mapped,
        needed=frozenset(base.fields),
        access=access,
        allow_missing=allow_missing,
        options={"ak_add_doc": request.add_doc},
    )


def _collection(reader: Reader, plan: PartitionPlan) -> object:
    """Return the dask-awkward array; if read errors are caught, return a pair of the array and the reports."""
    from dask_awkward.lib.io.io import from_map

    # Use a unique token, so that a scheduler never reuses the results of another collection: files may have changed.
    made = from_map(reader, plan.parts, divisions=plan.divisions, label="from-branchline", token=uuid.uuid4().hex)
    if reader.return_report:
        made[0].clear_divisions()  # a failed partition is empty
    return made


def _numpy(plan: PartitionPlan, access: Access) -> dict[str, Array]:
    """Return dask arrays by branch name; branches in groups have their path as name."""
    from dask.array.core import concatenate, from_delayed
    from dask.delayed import delayed

    assert plan.tree is not None
    lengths = [math.nan] * len(plan.parts) if plan.lengths is None else plan.lengths
    arrays = {}
    for name, field in plan.fields.items():
        branches = (
            {name: field} if isinstance(field, BranchField) else {path: BranchField(path) for path in field.paths()}
        )
        for key, branch in branches.items():
            facts = plan.tree[branch.path]
            empty = numpy_of(plan.tree.shape.empty(branch.path), facts.typename)
            read = delayed(NumpyReader(branch.path, facts.typename, access), pure=False)
            arrays[key] = concatenate(
                [
                    from_delayed(read(part), shape=(length, *empty.shape[1:]), dtype=empty.dtype)
                    for part, length in zip(plan.parts, lengths, strict=True)
                ],
                allow_unknown_chunksizes=plan.lengths is None,
            )
    return arrays
