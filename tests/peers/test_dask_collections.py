"""`branchline.dask` and `uproot.dask` return the same collections for the same files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.local_dask import local_cluster
from tests.peers.peers import imported

import branchline
from branchline.errors import DatasetError, MissingFileError, OptionError

#: Trees with numbers, with lists, strings and objects, and with split collections, and RNTuples.
FILES = [
    ("uproot-Zmumu-zlib.root", "events"),
    ("uproot-HZZ.root", "events"),
    ("uproot-small-evnt-tree-fullsplit.root", "tree"),
    ("stdvec-bool-fullsplit-6.10.08.root", "tree"),
    ("test_ntuple_int_5e4.root", "ntuple"),
    ("test_stl_containers_rntuple_v1-0-0-0.root", "ntuple"),
]


@pytest.fixture(scope="module")
def dask() -> Any:
    imported("dask_awkward")
    return imported("dask")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write three files with 10, 20 and 30 entries."""
    folder = tmp_path_factory.mktemp("dask")
    paths = []
    for number in range(1, 4):
        values = np.arange(10 * number) + 1000.0 * number
        paths.append(folder / f"f{number}.root")
        with imported("uproot").recreate(paths[-1]) as file:
            lists = ak.unflatten(np.arange(len(values)), np.full(len(values) // 2, 2))
            file.mktree("events", {"x": "float64", "y": "float32", "unused": "int64", "n": "var * int64"})
            jagged = ak.concatenate([lists, lists[:, :0]])
            file["events"].extend({"x": values, "y": values.astype("f4"), "unused": values.astype("i8"), "n": jagged})
    return paths


def computed(array: Any) -> Any:
    return array.compute(scheduler="sync")


def uproots(files: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return imported("uproot").dask(files, **options)


@pytest.mark.peer
@pytest.mark.parametrize(("name", "tree"), FILES)
def test_the_fields_of_uproot_have_the_same_values(dask: Any, shared: Path, name: str, tree: str) -> None:
    path = shared / "root" / name
    if not path.exists():
        pytest.skip(f"missing file: {name}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = branchline.dask({path: tree}), uproots({path: tree})
        mine, yours = computed(ours[:100]), computed(theirs[:100])
    common = [key for key in yours.fields if key in mine.fields]
    assert len(common) > 0.9 * len(yours.fields)
    for key in common:
        assert ak.to_list(mine[key]) == ak.to_list(yours[key]), key


@pytest.mark.peer
def test_only_the_branches_that_are_needed_are_read(dask: Any, paths: list[Path]) -> None:
    dak = imported("dask_awkward")
    events, report = branchline.dask({paths[0]: "events"}, allow_read_errors_with_report=True)
    few, all_of = ak.sum(events.x + events.y), events
    (needed,) = dak.necessary_columns(events.x + events.y).values()
    assert needed == {"x", "y"}
    assert read_baskets(dask, few, report) == 2
    assert read_baskets(dask, all_of, report) > 2
    assert float(dask.compute(few, report)[0]) == pytest.approx(2 * np.sum(np.arange(10) + 1000.0))


def read_baskets(dask: Any, array: Any, report: Any) -> int:
    _, done = dask.compute(array, report, scheduler="sync")
    return int(ak.sum(done.performance_counters.num_requested_chunks))


@pytest.mark.peer
def test_lengths_of_lists_need_one_branch_and_no_values(dask: Any, paths: list[Path]) -> None:
    dak = imported("dask_awkward")
    events = branchline.dask({paths[0]: "events"})
    (needed,) = dak.necessary_columns(ak.num(events.n)).values()
    assert needed == {"n"}
    assert computed(ak.num(events.n)).tolist() == [2] * 5 + [0] * 5


@pytest.mark.peer
@pytest.mark.parametrize("options", [{}, {"steps_per_file": 3}, {"step_size": 7}, {"open_files": False}])
def test_partitions_hold_all_entries_in_order(dask: Any, paths: list[Path], options: dict[str, Any]) -> None:
    files = [f"{path}:events" for path in paths]
    ours, theirs = branchline.dask(files, **options), uproots(files, **options)
    assert ak.array_equal(computed(ours.x), computed(theirs.x))
    expected = {"steps_per_file": 9, "step_size": 2 + 3 + 5}.get(next(iter(options), ""), 3)
    assert ours.npartitions == expected
    assert ours.known_divisions == ("open_files" not in options)


@pytest.mark.peer
def test_steps_of_bytes_have_the_entries_that_fill_them(dask: Any, paths: list[Path]) -> None:
    events = branchline.dask({paths[2]: "events"}, step_size="100 B", filter_name="x")
    assert set(np.diff(events.divisions)) == {10}  # entries of 8 bytes, plus their share of the basket header
    assert len(computed(events)) == 30


@pytest.mark.peer
@pytest.mark.parametrize("steps", [[[0, 4], [4, 10]], [0, 4, 10], np.array([[0, 4], [4, 10]])])
@pytest.mark.parametrize("open_files", [True, False])
def test_given_steps_are_the_partitions(dask: Any, paths: list[Path], steps: Any, open_files: bool) -> None:
    files = {str(paths[0]): {"object_path": "events", "steps": steps}}
    ours, theirs = branchline.dask(files, open_files=open_files), uproots(files, open_files=open_files)
    assert ours.divisions == theirs.divisions == (0, 4, 10)
    assert ak.array_equal(computed(ours), computed(theirs))


@pytest.mark.peer
def test_patterns_and_trees_are_files_too(dask: Any, paths: list[Path]) -> None:
    of_pattern = branchline.dask(f"{paths[0].parent}/f*.root:events")
    of_trees = branchline.dask([branchline.open(path)["events"] for path in paths])
    assert ak.array_equal(computed(of_pattern), computed(of_trees))
    assert len(of_pattern) == 60


@pytest.mark.peer
@pytest.mark.parametrize(
    "filters",
    [{"filter_name": "/[xy]/"}, {"filter_typename": "double"}, {"filter_branch": lambda one: one.name == "y"}],
)
def test_filters_choose_as_in_uproot(dask: Any, paths: list[Path], filters: dict[str, Any]) -> None:
    ours, theirs = branchline.dask({paths[0]: "events"}, **filters), uproots({paths[0]: "events"}, **filters)
    assert ours.fields == theirs.fields
    assert ak.array_equal(computed(ours), computed(theirs))


@pytest.mark.peer
def test_titles_come_along(dask: Any, paths: list[Path]) -> None:
    ours = branchline.dask({paths[0]: "events"}, ak_add_doc=True)
    theirs = uproots({paths[0]: "events"}, ak_add_doc=True)
    assert computed(ours).x.layout.parameters == computed(theirs).x.layout.parameters == {"__doc__": "x/D"}
    named = branchline.dask({paths[0]: "events"}, ak_add_doc={"kind": "typename"})
    assert computed(named).x.layout.parameters == {"kind": "double"}


@pytest.mark.peer
def test_numpy_gives_an_array_of_dask_for_each_branch(dask: Any, paths: list[Path]) -> None:
    files = [f"{path}:events" for path in paths]
    ours, theirs = branchline.dask(files, library="np"), uproots(files, library="np")
    assert ours["x"].dtype == theirs["x"].dtype
    assert ours["x"].shape == (60,)
    assert np.array_equal(computed(ours["x"]), computed(theirs["x"]))
    assert [list(one) for one in computed(ours["n"])] == [list(one) for one in computed(theirs["n"])]
    delayed = branchline.dask(files, library="np", open_files=False)
    assert float(computed(delayed["x"].sum())) == float(np.sum(computed(theirs["x"])))


@pytest.mark.peer
def test_a_known_form_opens_no_file_before_computing(dask: Any, paths: list[Path]) -> None:
    form = ak.forms.RecordForm([ak.forms.NumpyForm("float64")], ["x"])
    away = branchline.dask({"/nowhere/file.root": "events"}, open_files=False, known_base_form=form)
    with pytest.raises(MissingFileError, match=r"/nowhere/file\.root"):
        computed(away)
    here = branchline.dask({paths[0]: "events"}, open_files=False, known_base_form=form)
    assert computed(here).x.tolist()[:2] == [1000.0, 1001.0]


@pytest.mark.peer
def test_files_that_fail_are_empty_and_reported_where_that_is_asked_for(dask: Any, paths: list[Path]) -> None:
    files = [f"{paths[0]}:events", "/nowhere/file.root:events"]
    events, report = branchline.dask(files, open_files=False, allow_read_errors_with_report=True)
    array, done = dask.compute(events.x, report, scheduler="sync")
    assert len(array) == 10
    assert done.exception.tolist() == [None, "MissingFileError"]
    assert "/nowhere/file.root" in done.message.tolist()[1]
    with pytest.raises(MissingFileError):
        computed(branchline.dask(files, open_files=False))


@pytest.mark.peer
@pytest.mark.parametrize("open_files", [True, False])
def test_files_without_the_tree_are_left_out_where_that_is_asked_for(
    dask: Any, paths: list[Path], tmp_path: Path, open_files: bool
) -> None:
    other = tmp_path / "other.root"
    with branchline.recreate(other) as file:
        file.mktree("others", {"x": np.arange(3)})
    files = [f"{paths[0]}:events", f"{other}:events"]
    with pytest.raises(KeyError, match="no"):
        computed(branchline.dask(files, open_files=open_files))
    assert len(computed(branchline.dask(files, open_files=open_files, allow_missing=True))) == 10


@pytest.mark.peer
def test_a_form_mapping_finds_the_buffers_itself(dask: Any, paths: list[Path]) -> None:
    def renamed(form: Any) -> tuple[Any, Any]:
        forms = imported("uproot._dask")
        assert form.parameters["typenames"]["x"] == "double"
        return forms.TrivialFormMapping()(form.copy(parameters={"__record__": "Event"}))

    ours, theirs = branchline.dask({paths[0]: "events"}, form_mapping=renamed), branchline.dask({paths[0]: "events"})
    assert ak.array_equal(computed(ours), computed(theirs), check_parameters=False)
    assert computed(ours.x).tolist() == computed(theirs.x).tolist()
    assert ours.layout.parameters["__record__"] == "Event"


@pytest.mark.peer
def test_what_cannot_be_meant_is_refused(dask: Any, paths: list[Path]) -> None:
    file = {paths[0]: "events"}
    for options in (
        {"step_size": 3, "steps_per_file": 2},
        {"step_size": 3, "open_files": False},
        {"library": "pd"},
        {"steps_per_file": 0},
        {"known_base_form": ak.forms.RecordForm([], [])},
        {"no_such_option": 1},
    ):
        with pytest.raises(OptionError):
            branchline.dask(file, **options)
    with pytest.raises(OptionError, match="the tree events has 10"):
        branchline.dask({paths[0]: {"object_path": "events", "steps": [0, 11]}})
    with pytest.raises(OptionError, match="does not have all entries"):
        computed(branchline.dask({paths[0]: {"object_path": "events", "steps": [0, 11]}}, open_files=False).x)
    with pytest.raises(DatasetError):
        branchline.dask([])
    with pytest.raises(DatasetError):
        branchline.dask(file, filter_name="nothing")


@pytest.fixture(scope="module")
def client(dask: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Return a client of a cluster of two processes on this machine."""
    distributed = imported("distributed")
    folder = str(tmp_path_factory.mktemp("workers"))
    with (
        local_cluster(2, threads_per_worker=1, dashboard_address="127.0.0.1:0", local_directory=folder) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.peer
def test_processes_of_a_cluster_read_what_they_need(client: Any, paths: list[Path]) -> None:
    events, report = branchline.dask(
        [f"{path}:events" for path in paths], steps_per_file=2, allow_read_errors_with_report=True
    )
    array, done = client.gather(client.compute([events.x * 2, report]))
    assert ak.array_equal(array, 2 * branchline.concatenate([f"{path}:events" for path in paths], "x").x)
    assert done.performance_counters.num_requested_chunks.tolist() == [1] * 6


@pytest.mark.peer
def test_processes_of_a_cluster_read_objects_of_a_real_file(client: Any, shared: Path) -> None:
    path = shared / "root/uproot-HZZ.root"
    events = branchline.dask(f"{path}:events", step_size=1000)
    wanted = branchline.open(path)["events/Muon_Px"].array()
    assert ak.array_equal(client.compute(events.Muon_Px).result(), wanted)
