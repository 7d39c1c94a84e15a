"""Scripts written for uproot give the same results with Branchline after only their import was changed."""

from __future__ import annotations

from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.buffers import differences

# Each script can use `reader` (the module that it would import), `paths` (two files with a tree "events"), `folders` (a
# file with trees in directories) and `split` (a file with split objects). It stores its result in `result`.
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
    "expressions": """
        tree = reader.open(paths[0])["events"]
        result = tree.arrays(["charge*2", "sqrt(px**2 + py**2)", "run % 7 == 0", "arctan2(py, px)", "-charge", "px"])
    """,
    "expressions_of_one_text": """
        result = reader.open(paths[0])["events"].arrays("where(charge > 0, run, -run)")
    """,
    "names_that_are_no_names": """
        tree = reader.open(paths[0])["events"]
        some = ["get('px') + 1", "abs(charge)", "(charge > 0) & (run > 2**39)", "matrix[:, 0]", "~(run > 5)"]
        result = tree.arrays(some)
    """,
    "cut_of_events": """
        tree = reader.open(paths[0])["events"]
        result = [tree.arrays(["px", "run", "label"], cut="(charge > 0) & (run % 2 == 0)")]
        result += [tree.arrays("px", "charge < 0")]
    """,
    "cut_of_particles": """
        result = reader.open(paths[0])["events"].arrays(["px", "py*2"], cut="px > 0.5")
    """,
    "cut_with_numpy_and_pandas": """
        tree = reader.open(paths[0])["events"]
        columns = tree.arrays(["run", "matrix"], cut="charge == 1", library="np")
        frame = tree.arrays(["run", "charge*1.5"], cut="charge == 1", library="pd", entry_start=20)
        result = [columns["run"], columns["matrix"], frame.index.to_numpy(), frame["charge*1.5"].to_numpy()]
    """,
    "aliases": """
        tree = reader.open(paths[0])["events"]
        aliases = {"pt2": "px**2 + py**2", "pt": "sqrt(pt2)", "sign": "charge"}
        result = tree.arrays(["pt", "sign", "pt + sign"], cut="sign > 0", aliases=aliases)
    """,
    "containers": """
        tree = reader.open(paths[0])["events"]
        result = [tree.arrays(["run", "px"], how=how) for how in (tuple, list, dict)]
        result += [tree.arrays(["run", "charge"], how=how, library="np") for how in (tuple, list, dict)]
        result += [type(series).__name__ for series in tree.arrays(["run", "charge"], how=tuple, library="pd")]
    """,
    "zipped": """
        tree = reader.open(paths[0])["events"]
        result = [tree.arrays(["px", "py", "run"], how="zip"), tree.arrays(["muon_pt", "muon_q", "run"], how="zip")]
        result += [tree.arrays(["muon_pt", "muon_q", "px", "charge"], how="zip")]
    """,
    "names_of_libraries": """
        tree = reader.open(paths[0])["events"]
        result = [tree["run"].array(library="numpy"), tree["px"].array(library="awkward")]
        result += [tree["run"].array(library="pandas", entry_start=5).index.to_numpy()]
    """,
    "pandas_counts_over_all_files": """
        locations = [path + ":events" for path in paths]
        frames = list(reader.iterate(locations, ["run", "charge"], library="pd", step_size=40))
        whole = reader.concatenate(locations, ["run"], cut="charge > 0", library="pd")
        result = [[frame.index.to_numpy() for frame in frames], whole.index.to_numpy(), whole.run.to_numpy()]
    """,
    "mapping_of_branches": """
        tree = reader.open(paths[0])["events"]
        result = [len(tree), [branch.name for branch in tree], [name for name, _ in tree.items()], tree[0].name]
        result += [[branch.name for branch in tree.values()], [branch.name for branch in tree.branches], tree.get("no")]
        result += ["px" in tree, "pz" in tree, list(tree.iterkeys()), tree["/px"].name, tree.keys(recursive=False)]
    """,
    "filters": """
        tree = reader.open(paths[0])["events"]
        named = ("p?", "/.*y$/", "/P/i", ["run", "*el"], lambda name: "m" in name, "/px")
        result = [tree.keys(filter_name=one) for one in named]
        result += [tree.keys(filter_typename="/int.*/"), tree.typenames(filter_name="*n")]
        result += [dict(tree.itertypenames())["px"]]
        result += [tree.keys(filter_branch=lambda branch: branch.num_baskets > 0, filter_name="run")]
        result += [tree.arrays(filter_typename="float*", filter_name="p*")]
    """,
    "what_a_tree_is": """
        tree = reader.open(paths[0])["events"]
        result = [tree.name, tree.title, tree.num_entries, tree.object_path, tree.tree is tree, tree.file.file_path]
        result += [tree.aliases, tree.common_entry_offsets(), tree.common_entry_offsets(filter_name="p*")]
    """,
    "what_a_branch_is": """
        tree = reader.open(paths[0])["events"]
        result = []
        for branch in (tree["px"], tree["run"], tree["matrix"]):
            result += [branch.name, branch.title, branch.typename, branch.num_entries, branch.num_baskets, branch.index]
            result += [branch.compressed_bytes, branch.uncompressed_bytes, branch.compression_ratio, branch.top_level]
            result += [branch.entry_offsets, branch.keys(), len(branch.branches), branch.tree.name, branch.parent.name]
            result += [branch.object_path, len(branch), branch.common_entry_offsets(), repr(branch.compression)]
    """,
    "a_branch_is_an_array": """
        tree = reader.open(paths[0])["events"]
        result = [np.asarray(tree["run"]), np.mean(tree["charge"]), tree["px"].arrays()]
    """,
    "steps_with_all_that_arrays_has": """
        tree = reader.open(paths[0])["events"]
        options = {"aliases": {"p": "px**2"}, "cut": "charge > 0", "step_size": 30}
        result = list(tree.iterate(["p", "run"], **options))
        result += list(tree.iterate(["run", "charge"], library="np", how=tuple, entry_start=15, **options))
    """,
    "reports": """
        result = []
        for _, report in reader.iterate([path + ":events" for path in paths], "run", step_size=40, report=True):
            result += [report.file_path, report.tree_entry_start, report.tree_entry_stop, report.start, report.stop]
            result += [report.global_entry_start, report.global_entry_stop, report.tree.num_entries]
        for _, report in reader.open(paths[0])["events"].iterate("run", step_size=40, entry_start=10, report=True):
            result += [report.tree_entry_start, report.start, report.stop]
    """,
    "files_joined": """
        locations = [path + ":events" for path in paths]
        result = [reader.concatenate(locations, ["px", "run*2"], cut="charge > 0")]
        result += [reader.concatenate(locations, "run", entry_start=start, entry_stop=stop)
                   for start, stop in ((90, 110), (None, -60), (-20, None), (10, 20), (120, 130))]
        result += list(reader.concatenate(locations, ["run", "charge"], how=tuple, library="np"))
    """,
    "titles": """
        tree = reader.open(paths[0])["events"]
        events = tree.arrays(["px", "run"], ak_add_doc=True)
        result = [ak.parameters(events), ak.parameters(events.px), ak.parameters(tree["run"].array(ak_add_doc=True))]
    """,
    "files_counted": """
        result = list(reader.num_entries([path + ":events" for path in paths]))
    """,
    "files_without_the_tree": """
        files = {folders: "run/events", paths[0]: "run/events"}
        result = [len(reader.concatenate(files, allow_missing=True))]
    """,
    "options_that_change_nothing": """
        options = {"array_cache": None, "num_workers": 2, "timeout": 5, "object_cache": None}
        tree = reader.open({paths[0]: "events"}, **options)
        executors = {"decompression_executor": None, "interpretation_executor": None}
        result = [tree.arrays("px", array_cache=None, **executors), tree["px"].array(array_cache=None, **executors)]
    """,
    "errors": """
        result = []
        tree = reader.open(paths[0])["events"]
        for ask in (lambda: tree["pz"], lambda: tree.arrays("px + pz"), lambda: reader.open(paths[0])["no"]):
            try:
                ask()
            except reader.exceptions.KeyInFileError as error:
                result.append(isinstance(error, KeyError))
        try:
            reader.open("no such file.root")
        except FileNotFoundError:
            result.append("missing")
    """,
    "directories": """
        with reader.open(folders) as file:
            inner = file["run/inner"]
            result = [sorted(file), len(file), sorted(file.keys(recursive=False)), sorted(inner), len(file["run"])]
            result += [sorted(file.keys(filter_name="run/*")), sorted(file.keys(filter_name="/.*s/", cycle=False))]
            result += [file.keys(filter_classname="TTree"), sorted(file["run"].keys(cycle=False)), file.classnames()]
            result += [file["run"].classnames(recursive=False), file.classname_of("run/inner/hits"), file.file_path]
            result += [inner.object_path, file.object_path, inner["hits"].object_path]
            names = ("run", "run/events", "run/events;1", "run/events;3", "no", "run/inner/hits")
            result += [name in file for name in names]
            result += [file["run"]["events"].num_entries, file["run/events;1"].num_entries]
            result += [file["/run/inner/hits"].name, inner.file.file_path, file.get("no")]
            result += [file["run/inner/hits:y"].name, file["run/inner/hits/y"].array()]
            result += [len(file.values(filter_classname="TTree")), file.closed]
            result += [[name for name, _ in file.iteritems(filter_classname="TTree", cycle=False)]]
        result += [file.closed]
    """,
    "branches_within_branches": """
        tree = reader.open(split)["kinds"]
        first = tree["first"]
        result = [tree.keys(), tree.keys(recursive=False), tree.keys(full_paths=False)]
        result += [tree.keys(filter_name="*fX"), first.keys(filter_name="/.*f[XY]/")]
        result += [first.keys(), first.keys(recursive=False), len(first), len(tree)]
        result += [[branch.name for branch in first], first["fCoordinates"].index, first[0].name, first.top_level]
        result += [first["fCoordinates"]["fCoordinates.fX"].array()]
        result += [tree["second/fCoordinates/fCoordinates.fT"].array()]
        result += [first["fCoordinates.fX"].top_level, first["fCoordinates.fX"].parent.name]
        some = ["fCoordinates.fX", "get('fCoordinates.fT') * 2"]
        result += [first.arrays(), first.arrays(some, cut="fCoordinates.fX > 3"), tree["second"].num_baskets]
        result += [first.typenames(filter_name="*fX"), first["fCoordinates/fCoordinates.fX"].object_path]
        result += ["fCoordinates.fX" in first, "second" in first, "/fCoordinates.fX" in first, first.get("no")]
        result += [tree.arrays(filter_name="first/*"), first.common_entry_offsets()]
    """,
}


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Write two files with the same branches, using uproot."""
    folder = tmp_path_factory.mktemp("scripts")
    made = []
    for seed, entries in enumerate([100, 53]):
        rng = np.random.default_rng(seed)
        counts = rng.poisson(2, entries)
        jagged = {
            "px": ak.unflatten(rng.normal(0, 1, counts.sum()).astype("f4"), counts),
            "py": ak.unflatten(rng.normal(0, 1, counts.sum()), counts),
        }
        muons = rng.poisson(1, entries)
        jagged["muon_pt"] = ak.unflatten(rng.exponential(20, muons.sum()), muons)
        jagged["muon_q"] = ak.unflatten(rng.choice(np.array([-1, 1], "i4"), muons.sum()), muons)
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


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a file with trees in directories, one of them in two cycles."""
    path = tmp_path_factory.mktemp("scripts") / "folders.root"
    with uproot.recreate(path) as file:
        for value in (1, 2):
            file.mktree("run/events", {"x": "int32"}).extend({"x": np.full(3 * value, value, "i4")})
        file.mktree("run/inner/hits", {"y": "int32"}).extend({"y": np.arange(4, dtype="i4")})
        file.mktree("top", {"z": "int32"}).extend({"z": np.arange(2, dtype="i4")})
        file["run/histogram"] = np.histogram([1.0, 2.0])
    return str(path)


@pytest.fixture(scope="module")
def split(root: Any, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a file with split objects, using ROOT."""
    path = tmp_path_factory.mktemp("scripts") / "split.root"
    file = root.TFile.Open(str(path), "RECREATE")
    tree = root.TTree("kinds", "of branches")
    first, second = root.Math.PxPyPzEVector(), root.Math.PxPyPzEVector()
    tree.Branch("first", first)
    tree.Branch("second", second)
    tree.SetBasketSize("*", 300)
    for entry in range(100):
        first.SetCoordinates(entry, 0, 0, entry)
        second.SetCoordinates(0, entry, 0, 2 * entry)
        tree.Fill()
    tree.Write()
    file.Close()
    return str(path)


def run(script: str, reader: Any, **files: Any) -> Any:
    """Run a script and return its `result`."""
    lines = script.splitlines()
    names: dict[str, Any] = {"reader": reader, "np": np, "ak": ak, **files}
    exec("\n".join(line.removeprefix(" " * 8) for line in lines), names)
    return names["result"]


def assert_same(got: Any, wanted: Any) -> None:
    """Check that values and types are equal. Arrays are compared bit by bit."""
    if isinstance(wanted, ak.Array):
        assert differences(got, wanted) == []
    elif isinstance(wanted, np.ndarray):
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert got.tobytes() == wanted.tobytes()
    elif isinstance(wanted, dict):
        assert list(got) == list(wanted)
        assert_same(list(got.values()), list(wanted.values()))
    elif isinstance(wanted, list | tuple):
        assert type(got) is type(wanted)
        assert len(got) == len(wanted)
        for one, other in zip(got, wanted, strict=True):
            assert_same(one, other)
    else:
        assert got == wanted


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::branchline.SkippedFileWarning")
@pytest.mark.parametrize("name", SCRIPTS)
def test_script_gives_the_same_with_branchline(paths: list[str], folders: str, split: str, name: str) -> None:
    import branchline

    files = {"paths": paths, "folders": folders, "split": split}
    wanted = run(SCRIPTS[name], uproot, **files)
    assert_same(run(SCRIPTS[name], branchline, **files), wanted)
