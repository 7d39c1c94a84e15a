"""Scripts written for uproot give the same with Branchline when only their import is changed."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.buffers import differences

# Each script finds `reader`, the module under its import line, and `paths`, two files with a tree "events". What it
# wants to show it leaves in `result`.
SCRIPTS = {
    "keys_and_numbers": """
        with reader.open(paths[0]) as file:
            tree = file["events"]
            result = [sorted(tree.keys()), tree.num_entries, "px" in tree.keys(), file.keys(), file.keys(cycle=False)]
    """,
    "typenames": """
        tree = reader.open(paths[0] + ":events")
        result = [tree[name].typename for name in tree.keys() if name != "label"]
    """,
    "arrays_of_some_branches": """
        tree = reader.open(paths[0])["events"]
        events = tree.arrays(["px", "py", "charge"])
        pt = np.sqrt(events.px**2 + events.py**2)
        result = pt[(ak.num(events.px) > 1) & (events.charge > 0)]
    """,
    "all_arrays": """
        result = reader.open(paths[0])["events"].arrays()
    """,
    "one_branch_and_a_range": """
        tree = reader.open(paths[0] + ":events")
        result = [tree["px"].array(entry_start=10, entry_stop=40), tree["run"].array(entry_stop=-5)]
    """,
    "numpy": """
        tree = reader.open(paths[0])["events"]
        columns = tree.arrays(["run", "charge", "matrix"], library="np")
        result = [columns["run"], columns["charge"], columns["matrix"], tree["run"].array(library="np")]
    """,
    "numpy_jagged": """
        px = reader.open(paths[0])["events"]["px"].array(library="np")
        result = [len(px), np.concatenate(px)]
    """,
    "pandas": """
        frame = reader.open(paths[0])["events"].arrays(["run", "charge"], library="pd")
        result = [frame[frame.charge > 0].run.to_numpy(), list(frame.columns)]
    """,
    "filter_by_name": """
        tree = reader.open(paths[0])["events"]
        result = [tree.arrays(filter_name="p*"), tree.keys(filter_name="/p[xy]/i")]
    """,
    "chunks_of_one_tree": """
        total = 0
        for events in reader.open(paths[0])["events"].iterate(["px"], step_size=7):
            total += ak.sum(events.px)
        result = [total]
    """,
    "chunks_of_many_files": """
        lengths, sums = [], []
        for events in reader.iterate([path + ":events" for path in paths], ["px", "run"], step_size=30):
            lengths.append(len(events))
            sums.append(ak.sum(events.run))
        result = [lengths, sums]
    """,
    "files_by_dictionary": """
        total = 0
        for columns in reader.iterate({path: "events" for path in paths}, ["run"], library="np"):
            total += columns["run"].sum()
        result = [total]
    """,
    "files_by_pattern": """
        folder = paths[0].rpartition("/")[0]
        result = [sum(len(events) for events in reader.iterate(folder + "/*.root:events", ["run"]))]
    """,
    "several_branches_by_name": """
        tree = reader.open(paths[0])["events"]
        result = [[branch.name, branch.num_entries] for branch in (tree["px"], tree["run"])]
    """,
    "texts": """
        result = reader.open(paths[0])["events/label"].array()
    """,
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two files with the same branches, written by uproot."""
    folder = tmp_path_factory.mktemp("scripts")
    made = []
    for seed, entries in enumerate([100, 53]):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(2, entries)
        jagged = {
            "px": ak.unflatten(rng.normal(0, 1, counts.sum()).astype("f4"), counts),
            "py": ak.unflatten(rng.normal(0, 1, counts.sum()), counts),
        }
        flat = {
            "run": rng.integers(0, 2**40, entries),
            "charge": rng.choice(np.array([-1, 1], "i1"), entries),
            "matrix": rng.normal(0, 1, (entries, 2, 3)),
            "label": ak.Array([f"event {i}" for i in range(entries)]),
        }
        path = folder / f"file{seed}.root"
        with uproot.recreate(path) as file:
            file.mktree("events", {name: ak.type(array).content for name, array in {**flat, **jagged}.items()})
            file["events"].extend({**flat, **jagged})
        made.append(str(path))
    return made


def run(script: str, reader: Any, paths: list[str]) -> Any:
    """What the script leaves in `result`."""
    lines = script.splitlines()
    names: dict[str, Any] = {"reader": reader, "paths": paths, "np": np, "ak": ak}
    exec("\n".join(line.removeprefix(" " * 8) for line in lines), names)
    return names["result"]


def assert_same(got: Any, wanted: Any) -> None:
    """Equal values of equal types, arrays bit by bit."""
    if isinstance(wanted, ak.Array):
        assert differences(got, wanted) == []
    elif isinstance(wanted, np.ndarray):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert got.tobytes() == wanted.tobytes()
    elif isinstance(wanted, list):
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    else:
        assert got == wanted


@pytest.mark.peer
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_gives_the_same_with_branchline(paths: list[str], name: str) -> None:
    import branchline

    assert_same(run(SCRIPTS[name], branchline, paths), run(SCRIPTS[name], uproot, paths))
