"""ROOT, uproot and hadd read objects that Branchline writes from Python, value by value and member by member."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import uproot

import branchline

pytestmark = pytest.mark.peer

COUNT = 500
CODECS = ["zlib:1", "zlib:9", "lzma:1", "lz4:4", "lz4:9", "zstd:1", "zstd:5", None]
NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]


@pytest.fixture(autouse=True)
def objects_of_python(root: Any) -> Iterator[None]:
    """Make Python the owner of new histograms, instead of the open file."""
    before = root.TH1.AddDirectoryStatus()
    root.TH1.AddDirectory(False)
    yield
    root.TH1.AddDirectory(before)


def columns() -> dict[str, Any]:
    """Return a column of every kind."""
    rng = np.random.default_rng(7)
    counts = rng.integers(0, 4, COUNT)

    def jagged(values: Any) -> ak.Array:
        return ak.unflatten(values, counts)

    total = int(counts.sum())
    made: dict[str, Any] = {f"n_{name.strip('?') or 'b'}": rng.integers(0, 100, COUNT).astype(name) for name in NUMBERS}
    made |= {f"l_{name.strip('?') or 'b'}": jagged(rng.integers(0, 100, total).astype(name)) for name in NUMBERS}
    made["grid"] = rng.normal(size=(COUNT, 2, 3)).astype("f4")
    made["pairs"] = jagged(ak.from_numpy(rng.normal(size=(total, 2)), regulararray=True))
    made["text"] = ak.Array([f"text {number}" * (number % 5) for number in range(COUNT)])
    made["texts"] = jagged(ak.Array([f"{number}" for number in range(total)]))
    inner = rng.integers(0, 3, total)
    made["nested"] = jagged(ak.unflatten(np.arange(inner.sum(), dtype="i4"), inner))
    made["jet"] = ak.zip({"pt": jagged(rng.normal(size=total)), "id": jagged(np.arange(total))})
    made["met"] = ak.zip({"pt": rng.normal(size=COUNT), "phi": rng.normal(size=COUNT).astype("f4")})
    return made


def flat(columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns as branches of a TTree."""
    made: dict[str, Any] = {}
    for name, values in columns.items():
        if fields := getattr(values, "fields", []):
            made |= {f"{name}_{field}": values[field] for field in fields}
        else:
            made[name] = values
    return made


def as_list(value: Any) -> Any:
    """Convert a PyROOT value to Python values."""
    if hasattr(value, "c_str") or isinstance(value, str | bytes):
        return str(value)
    if hasattr(value, "__len__"):
        return [as_list(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


@pytest.mark.parametrize("codec", CODECS)
def test_trees_are_read_by_root_and_uproot(root: Any, tmp_path: Path, codec: str | None) -> None:
    path, given = tmp_path / "a.root", columns()
    with branchline.recreate(path, compression=codec) as file:
        file.mktree("dir/tree", given)
        file["dir/tree"].extend(given)
    wanted = flat(given)
    with uproot.open(path) as file:
        theirs = file["dir/tree"].arrays()
        assert file["dir/tree"].title == ""
    opened = root.TFile.Open(str(path))
    tree = opened.Get("dir/tree")
    assert tree.GetEntries() == 2 * COUNT
    frame = root.RDataFrame(tree)
    assert {str(name) for name in frame.GetColumnNames()} >= set(wanted) | {"njet", "nl_i4"}
    for name, values in wanted.items():
        twice = ak.concatenate([ak.Array(values)] * 2).to_list()
        assert theirs[name].to_list() == twice, name
    # Use a formula, because PyROOT returns the whole buffer of a TLeafC.
    text = root.TTreeFormula("text", "text", tree)
    for entry, event in enumerate(tree):
        if entry % 97:
            continue
        for name in ("n_b", "n_u8", "n_f4"):
            assert as_list(getattr(event, name)) == ak.Array(wanted[name])[entry % COUNT], name
        text.GetNdata()
        assert text.EvalStringInstance(0) == wanted["text"][entry % COUNT]
        for name in ("l_i4", "l_f8", "jet_pt", "texts", "nested"):
            got = as_list(getattr(event, name))
            assert got == ak.to_list(wanted[name][entry % COUNT]), name
        assert event.njet == len(wanted["jet_pt"][entry % COUNT])
    assert opened.GetCompressionSettings() == branchline_code(codec)
    settings = {branch.GetCompressionSettings() for branch in tree.GetListOfBranches()}
    assert settings == {branchline_code(codec)}
    numbers = tree.GetBranch("n_i8")
    if codec is None:
        assert numbers.GetZipBytes() >= numbers.GetTotBytes()
    else:
        assert numbers.GetZipBytes() < numbers.GetTotBytes()


def branchline_code(codec: str | None) -> int:
    if codec is None:
        return 0
    name, level = codec.split(":")
    return 100 * {"zlib": 1, "lzma": 2, "lz4": 4, "zstd": 5}[name] + int(level)


@pytest.mark.parametrize("kind", ["TTree", "RNTuple"])
@pytest.mark.parametrize("codec", ["lz4:1", None])
def test_pages_and_baskets_that_are_not_copied_are_read_by_root_and_uproot(
    root: Any, tmp_path: Path, kind: str, codec: str | None
) -> None:
    """Some pieces are larger than a page, some are smaller, and each ends within a page."""
    path, count = tmp_path / "a.root", 300_000
    lengths = np.random.default_rng(8).integers(0, 4, count)
    given = {"x": np.arange(count, dtype="f8"), "l": ak.unflatten(np.arange(lengths.sum(), dtype="f4"), lengths)}
    with branchline.recreate(path, compression=codec) as file:
        types = {name: ak.Array(values).type.content for name, values in given.items()}
        tree = (file.mktree if kind == "TTree" else file.mkrntuple)("events", types)
        for begin, end in pairwise([0, 100_000, 100_100, 280_000, 290_000, count]):
            tree.extend({name: values[begin:end] for name, values in given.items()})
    theirs = uproot.open(path)["events"].arrays()
    frame = root.RDataFrame("events", str(path)).Define("sum", "Sum(l)").AsNumpy(["x", "sum"])
    for name, values in given.items():
        assert ak.array_equal(theirs[name], values, dtype_exact=False), name
    assert np.array_equal(frame["x"], given["x"])
    assert np.allclose(frame["sum"], ak.sum(given["l"], axis=1), rtol=1e-6)


@pytest.mark.parametrize("codec", ["zstd:5", None])
def test_lists_of_the_same_lengths_have_their_ends_in_common(root: Any, tmp_path: Path, codec: str | None) -> None:
    """Lists that are written in the same call share the pages with their ends, whatever the size of the piece. ROOT's
    own files share such pages, too.
    """
    count = 300_000
    lengths = np.random.default_rng(8).integers(0, 4, count)
    lists = {name: ak.unflatten(np.arange(lengths.sum(), dtype="f4"), lengths) for name in "abc"}
    sizes = {}
    for names in ["a", "abc"]:
        path, given = tmp_path / f"{names}.root", {name: ak.values_astype(lists[name], "f4") + 1 for name in names}
        with branchline.recreate(path, compression=codec) as file:
            tree = file.mkrntuple("events", {name: values.type.content for name, values in given.items()})
            for begin, end in pairwise([0, 100, 200, 5_000, 200_000, count]):
                tree.extend({name: values[begin:end] + number for number, (name, values) in enumerate(given.items())})
        sizes[names] = path.stat().st_size
        frame = root.RDataFrame("events", str(path))
        for number, name in enumerate(names):
            for read in (branchline.open(path)["events"][name].array(), uproot.open(path)["events"][name].array()):
                assert ak.array_equal(read, given[name] + number, dtype_exact=False), name
            total = float(ak.sum(ak.values_astype(given[name] + number, "f8")))
            assert frame.Sum(name).GetValue() == pytest.approx(total, rel=1e-4)
    if codec is None:
        # Each list end takes 8 bytes.
        assert sizes["abc"] - sizes["a"] < 2 * 4 * int(lengths.sum()) + 8 * count


@pytest.mark.parametrize("codec", CODECS)
def test_ntuples_are_read_by_root_and_uproot(root: Any, tmp_path: Path, codec: str | None) -> None:
    path, given = tmp_path / "a.root", columns()
    with branchline.recreate(path, compression=codec) as file:
        ntuple = file.mkrntuple("ntuple", given)
        ntuple.extend(given)
    theirs = uproot.open(path)["ntuple"].arrays()
    reader = root.RNTupleReader.Open("ntuple", str(path))
    descriptor = reader.GetDescriptor()
    clusters = list(descriptor.GetClusterIterable())
    settings = {int(clusters[0].GetColumnRange(0).GetCompressionSettings().value())}
    assert settings == {branchline_code(codec)}
    frame = root.RDataFrame("ntuple", str(path))
    assert frame.Count().GetValue() == 2 * COUNT
    numbers = frame.AsNumpy(["n_i4", "n_f8", "n_b"])
    for name, values in given.items():
        twice = ak.concatenate([ak.Array(values)] * 2).to_list()
        assert theirs[name].to_list() == twice, name
        if name in numbers:
            assert numbers[name].tolist() == twice
    lists = frame.AsNumpy(["l_f4"])["l_f4"]
    assert [list(one) for one in lists] == given["l_f4"].to_list() * 2


def test_hadd_adds_what_is_written(root: Any, tmp_path: Path) -> None:
    given = columns()
    for number in range(2):
        with branchline.recreate(tmp_path / f"{number}.root") as file:
            file.mktree("tree", given)
            file.mkrntuple("ntuple", {"x": "f4"}).extend({"x": np.arange(10)})
            file["h"] = np.histogram([1, 2, 2], bins=3)
    hadd = Path(root.__file__).parent / "bin" / "hadd"
    output = tmp_path / "sum.root"
    subprocess.run([str(hadd), str(output), str(tmp_path / "0.root"), str(tmp_path / "1.root")], check=True)
    with branchline.open(output) as added:
        for name, values in flat(given).items():
            assert added["tree"][name].array().to_list() == ak.Array(values).to_list() * 2, name
        assert added["ntuple"].num_entries == 20
        assert added["h"].values().tolist() == [2, 0, 4]


def filled(histogram: Any, dimensions: int, *, weights: bool = False) -> Any:
    rng = np.random.default_rng(3)
    for point in rng.normal(4, 3, (50, dimensions)):
        histogram.Fill(*point.tolist(), *([float(rng.normal(2, 1))] if weights else []))
    return histogram


def labelled(root: Any) -> Any:
    histogram = root.TH1F("h", "with labels;kind", 3, 0.0, 3.0)
    for number, label in enumerate(("mu", "e", "tau"), start=1):
        histogram.GetXaxis().SetBinLabel(number, label)
    for x in (0.5, 0.5, 2.5):
        histogram.Fill(x)
    return histogram


def decorated(root: Any) -> Any:
    histogram = filled(root.TH1F("h", "of a test;x [m];events", 10, 0.0, 8.0), 1, weights=True)
    # Other tests in this process may have removed ROOT's predefined functions.
    root.TF1.InitStandardFunctions()
    assert int(histogram.Fit("gaus", "Q0")) == 0
    histogram.SetLineColor(4)
    histogram.SetFillStyle(3004)
    histogram.SetMaximum(17.0)
    histogram.GetXaxis().SetTitleOffset(1.7)
    histogram.GetXaxis().SetRange(2, 5)
    note = root.TText(0.5, 0.5, "a note")
    root.SetOwnership(note, False)
    histogram.GetListOfFunctions().Add(note)
    return histogram


def efficiency(root: Any) -> Any:
    made = root.TEfficiency("h", "", 5, 0.0, 10.0)
    for number in range(30):
        made.Fill(number % 3 == 0, number % 10)
    return made


def sparse(root: Any) -> Any:
    bins, low, high = np.array([5, 6], dtype="i4"), np.zeros(2), np.full(2, 8.0)
    made = root.THnSparseD("h", "", 2, bins, low, high)
    made.Sumw2()
    for point in np.random.default_rng(3).normal(4, 2, (40, 2)):
        made.Fill(point, 1.5)
    return made


def graph(root: Any) -> Any:
    made = root.TGraphAsymmErrors(3)
    made.SetNameTitle("h", "a graph")
    for number in range(3):
        made.SetPoint(number, number, number * 2.0)
        made.SetPointError(number, 0.1, 0.2, 0.3, 0.4)
    return made


def expected_warning(is_expected: bool) -> Any:
    """Return a context that expects the warning about a histogram that could not be copied, or no warning."""
    return pytest.warns(branchline.BranchlineWarning, match="bins alone") if is_expected else nullcontext()


EDGES = np.array([0.0, 1.0, 4.0, 10.0])
OBJECTS: dict[str, Callable[[Any], Any]] = {
    "TH1F": decorated,
    "TH1C": lambda root: filled(root.TH1C("h", "", 5, 0, 8), 1),
    "TH1I": lambda root: filled(root.TH1I("h", "", 5, 0, 8), 1),
    "TH1D": lambda root: filled(root.TH1D("h", "", 3, EDGES), 1, weights=True),
    "TH2F": lambda root: filled(root.TH2F("h", "", 4, 0, 8, 3, EDGES), 2, weights=True),
    "TH2S": lambda root: filled(root.TH2S("h", "", 4, 0, 8, 3, EDGES), 2),
    "TH3D": lambda root: filled(root.TH3D("h", "", 2, 0, 8, 3, 0, 8, 4, 0, 8), 3),
    "TProfile": lambda root: filled(root.TProfile("h", "", 4, 0, 8, "s"), 2, weights=True),
    "TProfile2D": lambda root: filled(root.TProfile2D("h", "", 4, 0, 8, 3, 0, 8), 3),
    "TEfficiency": efficiency,
    "THnSparseT<TArrayD>": sparse,
    "TGraphAsymmErrors": graph,
    "TH1F ": labelled,
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("target", ["h", "dir/h", "other"])
def test_what_was_read_is_written_the_same_in_every_member(root: Any, tmp_path: Path, name: str, target: str) -> None:
    path, output = tmp_path / "a.root", tmp_path / "b.root"
    original = OBJECTS[name](root)
    file = root.TFile(str(path), "RECREATE")
    file.WriteObject(original, "h")
    file.Close()
    is_moved = name == "TH1F" and target == "other"
    with branchline.recreate(output) as written, expected_warning(is_moved):
        written[target] = branchline.open(path)["h"]
    if is_moved:  # a longer key moves the fitted function, which may contain references
        return
    opened = root.TFile.Open(str(output))
    before = root.TFile.Open(str(path))
    theirs = before.Get("h")
    got = opened.Get(target)
    assert got.ClassName() == theirs.ClassName() == name.strip()
    json = [str(root.TBufferJSON.ToJSON(one)) for one in (theirs, got)]
    # Like with TFile::WriteObject, the object itself may keep its name.
    own = re.compile(r'"fName" : "(h|other)"')
    assert own.sub("", json[0], count=1) == own.sub("", json[1], count=1)


def noted(root: Any) -> Any:
    """Return a histogram with labels, a note, colors and a display range. It has no fitted function, because such an
    object cannot be moved.
    """
    histogram = labelled(root)
    histogram.Sumw2()
    histogram.SetLineColor(4)
    histogram.SetMaximum(17.0)
    histogram.GetXaxis().SetTitleOffset(1.7)
    note = root.TText(0.5, 0.5, "a note")
    root.SetOwnership(note, False)
    histogram.GetListOfFunctions().Add(note)
    return histogram


CHANGED: dict[str, Callable[[Any], Any]] = {
    "TH1F": noted,
    "TH1I": lambda root: filled(root.TH1I("h", "", 5, 0, 8), 1),
    "TH2F": lambda root: filled(root.TH2F("h", "", 4, 0, 8, 3, EDGES), 2, weights=True),
    "TH3D": lambda root: filled(root.TH3D("h", "", 2, 0, 8, 3, 0, 8, 4, 0, 8), 3),
    "TProfile": lambda root: filled(root.TProfile("h", "", 4, 0, 8, "s"), 2, weights=True),
    "TProfile2D": lambda root: filled(root.TProfile2D("h", "", 4, 0, 8, 3, 0, 8), 3),
}


@pytest.mark.parametrize("name", CHANGED)
def test_a_changed_histogram_keeps_all_but_its_numbers(root: Any, tmp_path: Path, name: str) -> None:
    path, output = tmp_path / "a.root", tmp_path / "b.root"
    original = CHANGED[name](root)
    file = root.TFile(str(path), "RECREATE")
    file.WriteObject(original, "h")
    file.Close()
    read = branchline.open(path)["h"]
    read.label = "another title"
    read.view(flow=True)[...] = (read * 2).view(flow=True)
    with branchline.recreate(output) as written:
        written["changed/longer_name"] = read
    opened = root.TFile.Open(str(output))
    got, theirs = opened.Get("changed/longer_name"), original.Clone()
    theirs.Scale(2)
    assert (got.GetName(), got.GetTitle(), got.ClassName()) == ("longer_name", "another title", name)
    cells = range(theirs.GetNcells())
    assert [got.GetBinContent(cell) for cell in cells] == pytest.approx([theirs.GetBinContent(cell) for cell in cells])
    assert got.GetLineColor() == theirs.GetLineColor()
    assert got.GetMaximumStored() == original.GetMaximumStored()
    assert [one.GetName() for one in got.GetListOfFunctions()] == [one.GetName() for one in theirs.GetListOfFunctions()]
    labels = [[one.GetXaxis().GetBinLabel(bin_) for bin_ in (1, 2, 3)] for one in (got, theirs)]
    assert labels[0] == labels[1]
    again = branchline.open(output)["changed/longer_name"]
    assert again.values() == pytest.approx(read.values())
    assert again.errors(flow=True) == pytest.approx(read.errors(flow=True))


def test_a_renamed_histogram_has_the_name_of_its_key(root: Any, tmp_path: Path) -> None:
    path, output = tmp_path / "a.root", tmp_path / "b.root"
    file = root.TFile(str(path), "RECREATE")
    for name, make in OBJECTS.items():
        made = make(root)
        made.SetName(name.strip("> ").replace("<", "_"))
        file.WriteObject(made, made.GetName())
    file.Close()
    source = branchline.open(path)
    names = [name for name in source.keys(cycle=False) if name != "TH1F"]  # its fitted function cannot be moved
    with branchline.recreate(output) as written:
        for name in names:
            written[f"new_{name}"] = source[name]
    opened = root.TFile.Open(str(output))
    assert [opened.Get(f"new_{name}").GetName() for name in names] == [f"new_{name}" for name in names]


def test_graphs_of_python_are_read_by_root_and_uproot(root: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.root"
    points = {"x": [1.0, 2.0], "y": [4.0, 5.0]}
    symmetric = {"x_errors": [0.1, 0.2], "y_errors": [0.3, 0.4]}
    ends = ("x_errors_low", "x_errors_high", "y_errors_low", "y_errors_high")
    asymmetric = {name: [0.1 * number, 0.2 * number] for number, name in enumerate(ends, start=1)}
    with branchline.recreate(path) as file:
        file["g"] = branchline.as_TGraph(points, title="a title")
        file["dir/symmetric"] = branchline.as_TGraph(points | symmetric)
        file["asymmetric"] = branchline.as_TGraph(points | asymmetric)
        file["none"] = branchline.as_TGraph({"x": [], "y": []})
    with uproot.open(path) as theirs:
        assert theirs["g"].member("fTitle") == "a title"
        assert theirs["dir/symmetric"].member("fEY").tolist() == [0.3, 0.4]
        assert theirs["asymmetric"].errors("high", "y").tolist() == [0.4, 0.8]
        assert theirs["asymmetric"].values("x").tolist() == [1, 2]
    opened = root.TFile.Open(str(path))
    assert [opened.Get(name).GetN() for name in ("g", "asymmetric", "none")] == [2, 2, 0]
    assert opened.Get("asymmetric").GetErrorYlow(1) == pytest.approx(0.6)
    assert opened.Get("dir/symmetric").GetErrorX(1) == 0.2
    ours = branchline.open(path)
    assert ours["dir/symmetric"].classname == "TGraphErrors"
    assert ours["asymmetric"].x_high.tolist() == asymmetric["x_errors_high"]


@pytest.mark.parametrize("axes_count", [1, 2, 3])
@pytest.mark.parametrize("storage", [hist.storage.Mean(), hist.storage.WeightedMean()])
def test_means_become_profiles(root: Any, tmp_path: Path, axes_count: int, storage: Any) -> None:
    rng = np.random.default_rng(4)
    axes = [hist.axis.Regular(bins, 0, 1, name=name) for bins, name in zip((3, 4, 5), "xyz", strict=True)]
    points, samples, weights = rng.normal(0.5, 0.4, (axes_count, 60)), rng.normal(3, 1, 60), rng.uniform(1, 2, 60)
    made = hist.Hist(*axes[:axes_count], storage=storage)
    is_weighted = isinstance(storage, hist.storage.WeightedMean)
    made.fill(*points, sample=samples, **({"weight": weights} if is_weighted else {}))
    with branchline.recreate(tmp_path / "a.root") as file:
        file["p"] = made
    classname = "TProfile" if axes_count == 1 else f"TProfile{axes_count}D"
    sizes = [argument for axis in axes[:axes_count] for argument in (axis.size, 0.0, 1.0)]
    theirs = getattr(root, classname)("p", "", *sizes)
    for *point, sample, weight in zip(*points, samples, weights, strict=True):
        theirs.Fill(*point, sample, *([weight] if is_weighted else []))
    opened = root.TFile.Open(str(tmp_path / "a.root"))
    got = opened.Get("p")
    assert got.ClassName() == classname
    for cell in range(theirs.GetNcells()):
        assert got.GetBinContent(cell) == pytest.approx(theirs.GetBinContent(cell)), cell
        assert got.GetBinError(cell) == pytest.approx(theirs.GetBinError(cell), abs=1e-6), cell
    with uproot.open(tmp_path / "a.root") as file:
        assert file["p"].values() == pytest.approx(made.values())
    assert branchline.open(tmp_path / "a.root")["p"].values() == pytest.approx(made.values())


def test_a_changed_histogram_has_new_sums(root: Any, tmp_path: Path) -> None:
    path, output = tmp_path / "a.root", tmp_path / "b.root"
    file = root.TFile(str(path), "RECREATE")
    file.WriteObject(decorated(root), "h")
    file.Close()
    read = branchline.open(path)["h"]
    # An object with a fitted function cannot be moved.
    with branchline.recreate(output) as written, expected_warning(True):
        written["twice"] = read * 2
        written["part"] = hist.Hist(read)
    opened = root.TFile.Open(str(output))
    assert opened.Get("twice").GetBinContent(4) == pytest.approx(2 * read.values()[3])
    assert opened.Get("part").GetBinError(4) == pytest.approx(np.sqrt(read.variances()[3]))


def test_objects_of_uproot_are_written(root: Any, tmp_path: Path) -> None:
    path, output = tmp_path / "a.root", tmp_path / "b.root"
    file = root.TFile(str(path), "RECREATE")
    for kind in ("TH1F", "TH2F", "TProfile"):
        file.WriteObject(OBJECTS[kind](root) if kind != "TH1F" else labelled(root), kind)
    file.Close()
    with branchline.recreate(output, compression=uproot.ZLIB(4)) as written:
        for kind in ("TH1F", "TH2F", "TProfile"):
            written[kind] = uproot.open(path)[kind]
    opened, before = root.TFile.Open(str(output)), root.TFile.Open(str(path))
    for kind in ("TH1F", "TH2F", "TProfile"):
        assert opened.Get(kind).ClassName() == kind
        assert opened.Get(kind).GetEntries() == before.Get(kind).GetEntries()
        assert opened.Get(kind).GetMean() == before.Get(kind).GetMean()
        assert branchline.open(output)[kind].classname == kind


@pytest.mark.parametrize("writer", ["root", "uproot"])
def test_files_of_others_are_updated(root: Any, tmp_path: Path, writer: str) -> None:
    path = tmp_path / "a.root"
    if writer == "root":
        file = root.TFile(str(path), "RECREATE")
        file.mkdir("d").cd()
        labelled(root).Write("h")
        tree = root.TTree("tree", "")
        number = np.zeros(1, dtype="i4")
        tree.Branch("x", number, "x/I")
        for number[0] in range(10):
            tree.Fill()
        file.Write()
        file.Close()
    else:
        with uproot.recreate(path) as made:
            made["d/h"] = np.histogram([1, 2], bins=3)
            made["d/tree"] = {"x": np.arange(10)}
    with branchline.update(path) as file:
        file.mktree("d/new", {"y": np.arange(5)})
        file["d/e/h"] = np.histogram([1], bins=2)
        file["top"] = "text"
    opened = root.TFile.Open(str(path))
    if writer == "root":  # ROOT 6.40 crashes when it reads a tree of uproot, even without an update
        assert opened.Get("d/tree").GetEntries() == 10
    assert opened.Get("d/new").GetEntries() == 5
    assert opened.Get("d/h").GetEntries() > 0
    assert opened.Get("top").GetString() == "text"
    assert not opened.TestBit(root.TFile.kRecovered)
    with uproot.open(path) as theirs:
        assert theirs["d/new"]["y"].array().to_list() == list(range(5))
        assert theirs["d/tree"]["x"].array().to_list() == list(range(10))
        assert theirs["d/e/h"].values().tolist() == branchline.open(path)["d/e/h"].values().tolist()
    opened = root.TFile.Open(str(path), "UPDATE")
    opened.WriteObject(labelled(root), "by root")
    opened.Close()
    assert branchline.open(path)["by root"].classname == "TH1F"
    assert branchline.open(path)["d/e/h"].classname == "TH1D"


def test_objects_are_copied_between_files(root: Any, tmp_path: Path) -> None:
    path, output = tmp_path / "a.root", tmp_path / "b.root"
    file = root.TFile(str(path), "RECREATE")
    file.mkdir("d").cd()
    labelled(root).Write("h")
    graph(root).Write("g")
    file.Close()
    with branchline.recreate(output) as written:
        written.mkdir("copies").copy_from(branchline.open(path))
        written.copy_from(str(path), filter_classname="TGraph*")
    got = branchline.open(output)
    assert got.classnames(cycle=False) == {
        "copies": "TDirectory",
        "copies/d": "TDirectory",
        "copies/d/g": "TGraphAsymmErrors",
        "copies/d/h": "TH1F",
        "d": "TDirectory",
        "d/g": "TGraphAsymmErrors",
    } or set(got.keys(cycle=False)) >= {"copies/d/h", "copies/d/g", "d/g"}
    opened = root.TFile.Open(str(output))
    assert opened.Get("copies/d/h").GetXaxis().GetBinLabel(1) == "mu"
