"""Converted trees have equal values when ROOT, uproot and pyarrow read them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import uproot

import branchline
from branchline.errors import BranchlineError, StorageError, UnsupportedBranchError
from branchline.writing.merging.convert import convert

ENTRIES = 500
FLAT = ("flag", "tiny", "short", "number", "long", "unsigned", "real", "double", "letters", "text")
SHOWN = ("n", "px", "py")
DEEP = ("matrix", "pairs", "words", "flags", "leaves")


@pytest.fixture(scope="module")
def tree(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a TTree with all kinds of branches that RNTuples also support."""
    root.gInterpreter.Declare(
        """
        #include <TFile.h>
        #include <TTree.h>
        #include <string>
        #include <vector>
        #ifndef BRANCHLINE_CONVERTING
        #define BRANCHLINE_CONVERTING
        struct ConvertedPoint { float x; int y; };
        struct ConvertedEvent {
           int number; ConvertedPoint point; std::vector<ConvertedPoint> points; std::vector<float> list;
        };
        struct ConvertedLeaves { int a; float b; double c; };
        void branchline_write_all(const char *path, int entries) {
           TFile file(path, "RECREATE");
           TTree tree("events", "events of a test");
           tree.SetAutoFlush(100);
           bool flag; char tiny; short small; int number; long long large; unsigned natural; float real; double precise;
           char letters[20]; std::string text; int n; float px[10]; double py[10]; float matrix[2][3]; int pairs[10][2];
           std::vector<std::string> words; std::vector<bool> flags; ConvertedLeaves leaves; ConvertedEvent event;
           tree.Branch("flag", &flag, "flag/O");      tree.Branch("tiny", &tiny, "tiny/B");
           tree.Branch("short", &small, "short/S");   tree.Branch("number", &number, "number/I");
           tree.Branch("long", &large, "long/L");     tree.Branch("unsigned", &natural, "unsigned/i");
           tree.Branch("real", &real, "real/F");      tree.Branch("double", &precise, "double/D");
           tree.Branch("letters", letters, "letters/C"); tree.Branch("text", &text);
           tree.Branch("n", &n, "n/I"); tree.Branch("px", px, "px[n]/F"); tree.Branch("py", py, "py[n]/D");
           tree.Branch("matrix", matrix, "matrix[2][3]/F"); tree.Branch("pairs", pairs, "pairs[n][2]/I");
           tree.Branch("words", &words); tree.Branch("flags", &flags);
           tree.Branch("leaves", &leaves, "a/I:b/F:c/D"); tree.Branch("event", &event);
           for (int i = 0; i < entries; ++i) {
              flag = i % 2; tiny = i; small = -i; number = i * 1000; large = i * 10000000000ll;
              natural = 4000000000u + i; real = 0.5f * i; precise = 0.1 * i;
              snprintf(letters, 20, "no %d", i); text = std::string(i % 300, 'q');
              n = i % 10;
              for (int k = 0; k < n; ++k) { px[k] = i + k; py[k] = i - k; pairs[k][0] = k; pairs[k][1] = -k; }
              for (int k = 0; k < 6; ++k) matrix[k / 3][k % 3] = i + k;
              words.assign(i % 3, std::string(i % 4, 'w')); flags.assign(i % 4, i % 2);
              leaves = {i, 2.f * i, 3. * i};
              event.number = i; event.point = {0.5f * i, i}; event.points.clear(); event.list.assign(i % 3, i);
              for (int k = 0; k < i % 4; ++k) event.points.push_back({1.f * i, k});
              tree.Fill();
           }
           tree.Write();
        }
        #endif
        """
    )
    path = tmp_path_factory.mktemp("trees") / "tree.root"
    root.branchline_write_all(str(path), ENTRIES)
    return path


@pytest.fixture(scope="module")
def expected(tree: Path) -> Any:
    return uproot.open(tree)["events"].arrays([*FLAT, *SHOWN, *DEEP])


@pytest.fixture(scope="module")
def ntuple(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("converted") / "ntuple.root"
    made = convert(tree, output, cluster_entries=200)
    assert (made.kind, made.entries, made.clusters) == ("rntuple", ENTRIES, 3)
    return output


def test_an_rntuple_has_the_values_of_the_tree(ntuple: Path, expected: Any) -> None:
    ours, uproots = branchline.open(ntuple)["events"], uproot.open(ntuple)["events"]
    assert ours.title == "events of a test"
    for name in expected.fields:
        assert ak.to_list(ours[name].array()) == ak.to_list(expected[name]), name
        assert ak.to_list(uproots[name].array()) == ak.to_list(expected[name]), name
    first = ours["event"].array(entry_stop=4).to_list()
    assert first[3]["points"] == [{"x": 3.0, "y": k} for k in range(3)]
    assert first[3]["point"] == {"x": 1.5, "y": 3}


def test_root_reads_every_field_of_it(root: Any, ntuple: Path, expected: Any) -> None:
    frame = root.RDataFrame("events", str(ntuple))
    numbers = [name for name in FLAT if name not in ("letters", "text", "flag", "tiny")]
    columns = frame.AsNumpy([*numbers, "letters", "text", "n", "px", "event.number", "leaves.b"])
    for name in (*numbers, "n"):
        assert np.array_equal(columns[name], ak.to_numpy(expected[name])), name
    for name in ("letters", "text"):
        assert [str(one) for one in columns[name]] == ak.to_list(expected[name]), name
    assert [list(one) for one in columns["px"]] == ak.to_list(expected["px"])
    assert np.array_equal(columns["event.number"], np.arange(ENTRIES))
    assert np.array_equal(columns["leaves.b"], 2 * np.arange(ENTRIES))
    sums = frame.Define("sum", "matrix[0][0] + matrix[1][2]").AsNumpy(["sum"])["sum"]
    assert np.array_equal(sums, 2 * np.arange(ENTRIES) + 5)
    assert root.RNTupleReader.Open("events", str(ntuple)).GetNEntries() == ENTRIES


def test_names_of_the_importer_are_there(root: Any, tree: Path, ntuple: Path, tmp_path: Path) -> None:
    """ROOT's importer creates the same fields from leaves and from arrays with a counter."""
    output = tmp_path / "imported.root"
    root.RDataFrame("events", str(tree)).Range(ENTRIES).Snapshot(
        "events", str(tmp_path / "plain.root"), root.std.vector["std::string"](["number", "real", "n", "px", "py"])
    )
    importer = root.Experimental.RNTupleImporter.Create(str(tmp_path / "plain.root"), "events", str(output))
    importer.SetIsQuiet(True)
    importer.Import()
    theirs, ours = branchline.open(output)["events"], branchline.open(ntuple)["events"]
    for name in ("number", "real", "n", "px", "py"):
        assert theirs[name].typename == ours[name].typename, name
        assert ak.to_list(theirs[name].array()) == ak.to_list(ours[name].array()), name


def test_parquet_has_the_values_of_the_tree(tree: Path, expected: Any, tmp_path: Path) -> None:
    output = tmp_path / "events.parquet"
    made = convert(tree, output)
    table = pq.read_table(output)
    assert (made.kind, made.entries, table.num_rows) == ("parquet", ENTRIES, ENTRIES)
    for name in expected.fields:
        assert table[name].to_pylist() == ak.to_list(expected[name]), name
    assert table["event"][3].as_py()["points"] == [{"x": 3.0, "y": k} for k in range(3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["events.parquet"]


def test_several_inputs_become_one_and_rntuples_parquet(ntuple: Path, expected: Any, tmp_path: Path) -> None:
    output = tmp_path / "events.parquet"
    other = shutil.copy(ntuple, tmp_path / "other.root")
    made = convert([ntuple, other], output, branches=["number", "words", "px"], memory_limit="32 MiB")
    table = pq.read_table(output)
    assert (made.files, table.column_names) == (2, ["number", "words", "px"])
    for name in table.column_names:
        assert table[name].to_pylist() == 2 * ak.to_list(expected[name]), name


@pytest.mark.parametrize(("codec", "setting"), [("zstd:3", 503), ("lz4:4", 404), ("none", 0)])
def test_codec_and_sizes_are_as_wanted(root: Any, tree: Path, tmp_path: Path, codec: str, setting: int) -> None:
    output = tmp_path / "ntuple.root"
    convert(tree, output, codec=codec, page_bytes=512, branches=["number", "text", "px", "n"])
    inspector = root.Experimental.RNTupleInspector.Create("events", str(output))
    assert inspector.GetCompressionSettings() == setting
    assert branchline.open(output)["events"]["text"].array()[299] == "q" * 299
    assert inspector.GetColumnInspector(0).GetNPages() > 1


def test_what_cannot_be_made_leaves_nothing(tree: Path, tmp_path: Path) -> None:
    output = tmp_path / "ntuple.root"
    for wrong in ({"codec": "gzip"}, {"branches": ["nothing"]}, {"branches": ["number"], "drop": ["number"]}):
        with pytest.raises(BranchlineError):
            convert(tree, output, **wrong)
    convert(tree, output, branches=["number"])
    with pytest.raises(StorageError, match="the file already exists"):
        convert(tree, output, branches=["real"])
    with pytest.raises(StorageError, match="one of the inputs"):
        convert(output, output, to="rntuple", force=True)
    assert [path.name for path in tmp_path.iterdir()] == ["ntuple.root"]


def test_inputs_with_other_branches_are_refused(tree: Path, tmp_path: Path) -> None:
    for name, value in (("one", np.arange(3)), ("two", np.arange(3) / 2)):
        with uproot.recreate(tmp_path / f"{name}.root") as file:
            file.mktree("events", {"number": value.dtype}).extend({"number": value})
    with pytest.raises(UnsupportedBranchError, match="field number has values of another type"):
        convert([tmp_path / "one.root", tmp_path / "two.root"], tmp_path / "out.root")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.root", "two.root"]


@pytest.fixture(scope="module")
def back(ntuple: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Convert the RNTuple back to a TTree."""
    output = tmp_path_factory.mktemp("back") / "tree.root"
    made = convert(ntuple, output, page_bytes=4000)
    assert (made.kind, made.entries) == ("ttree", ENTRIES)
    return output


def test_a_tree_of_an_rntuple_has_its_values(back: Path, expected: Any) -> None:
    ours, uproots = branchline.open(back)["events"], uproot.open(back)["events"]
    for name in expected.fields:
        if name == "leaves":
            continue
        assert ak.to_list(ours[name].array()) == ak.to_list(expected[name]), name
        assert ak.to_list(uproots[name].array()) == ak.to_list(expected[name]), name
    for tree in (ours, uproots):
        assert ak.to_list(tree["leaves.b"].array()) == list(2.0 * np.arange(ENTRIES))
        assert ak.to_list(tree["event.points.x"].array()[:4]) == [[], [1.0], [2.0, 2.0], [3.0, 3.0, 3.0]]


def test_root_reads_every_branch_of_it(root: Any, back: Path, expected: Any) -> None:
    file = root.TFile.Open(str(back))
    tree = file.Get("events")
    assert (tree.GetEntries(), tree.GetTitle()) == (ENTRIES, "events of a test")
    tree.SetCacheSize(1 << 20)
    for entry in (0, 1, 299, ENTRIES - 1):
        assert tree.GetEntry(entry) > 0
        for name in ("number", "short", "long", "unsigned", "real", "double"):
            assert getattr(tree, name) == expected[name][entry], name
        assert str(tree.text) == expected["text"][entry]
        assert list(tree.px) == ak.to_list(expected["px"][entry])
        assert [str(word) for word in tree.words] == ak.to_list(expected["words"][entry])
        assert [list(pair) for pair in tree.pairs] == ak.to_list(expected["pairs"][entry])
        assert list(tree.flags) == ak.to_list(expected["flags"][entry])
    frame = root.RDataFrame("events", str(back))
    columns = frame.AsNumpy(["number", "real", "event.number", "text"])
    assert np.array_equal(columns["real"], ak.to_numpy(expected["real"]))
    assert np.array_equal(columns["event.number"], np.arange(ENTRIES))
    assert [str(text) for text in columns["text"]] == ak.to_list(expected["text"])
    file.Close()


def test_streamer_infos_are_those_of_root(root: Any, back: Path, ntuple: Path) -> None:
    for path, wanted in ((back, ("TTree", "TBranchElement", "TLeafD")), (ntuple, ("ROOT::RNTuple",))):
        infos = {info.GetName(): info for info in root.TFile.Open(str(path)).GetStreamerInfoList()}
        for name in wanted:
            known = root.TClass.GetClass(name)
            assert (infos[name].GetClassVersion(), infos[name].GetCheckSum()) == (
                known.GetClassVersion(),
                known.GetCheckSum(),
            )


@pytest.fixture(scope="module")
def special(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write an RNTuple with types that TTrees and Parquet files do not have."""
    root.gInterpreter.Declare(
        """
        #include <ROOT/RNTupleWriter.hxx>
        #include <optional>
        #include <variant>
        void branchline_write_special(const char *path) {
           auto model = ROOT::RNTupleModel::Create();
           auto maybe = model->MakeField<std::optional<float>>("maybe");
           auto either = model->MakeField<std::variant<int, std::string>>("either");
           auto many = model->MakeField<std::vector<std::variant<double, std::vector<int>>>>("many");
           auto deep = model->MakeField<std::vector<std::vector<std::vector<int>>>>("deep");
           auto number = model->MakeField<int>("number");
           auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "events", path);
           for (int i = 0; i < 30; ++i) {
              *maybe = i % 3 ? std::optional<float>(0.5f * i) : std::nullopt;
              if (i % 2) *either = i; else *either = std::string(i, 'e');
              many->clear();
              for (int k = 0; k < i % 4; ++k) {
                 if (k % 2) many->push_back(0.5 * k); else many->push_back(std::vector<int>(k, i));
              }
              deep->assign(i % 2, std::vector<std::vector<int>>(1, {i}));
              *number = i;
              writer->Fill();
           }
        }
        """
    )
    path = tmp_path_factory.mktemp("special") / "ntuple.root"
    root.branchline_write_special(str(path))
    return path


def test_variants_and_what_may_be_missing_are_converted(root: Any, special: Path, tmp_path: Path) -> None:
    expected = branchline.open(special)["events"].arrays().to_list()
    convert(special, tmp_path / "ntuple.root", to="rntuple", cluster_entries=7, page_bytes=100)
    assert branchline.open(tmp_path / "ntuple.root")["events"].arrays().to_list() == expected
    reader = root.RNTupleReader.Open("events", str(tmp_path / "ntuple.root"))
    types = {name: str(reader.GetModel().GetConstField(name).GetTypeName()) for name in ("maybe", "either", "many")}
    assert types == {
        "maybe": "std::optional<float>",
        "either": "std::variant<std::int32_t,std::string>",
        "many": "std::vector<std::variant<double,std::vector<std::int32_t>>>",
    }
    frame = root.RDataFrame("events", str(tmp_path / "ntuple.root"))
    sizes = frame.Define("size", "either.index() ? std::get<std::string>(either).size() : std::get<int>(either)")
    assert sizes.AsNumpy(["size"])["size"].tolist() == list(range(30))
    convert(special, tmp_path / "all.parquet")
    rows = pq.read_table(tmp_path / "all.parquet").to_pylist()
    assert [row["either"] for row in rows[2:4]] == [{"_0": None, "_1": "ee"}, {"_0": 3, "_1": None}]
    assert rows[3]["many"] == [{"_0": None, "_1": []}, {"_0": 0.5, "_1": None}, {"_0": None, "_1": [3, 3]}]
    assert [row["maybe"] for row in rows] == [row["maybe"] for row in expected]


def test_all_that_a_tree_cannot_hold_is_refused_at_once_with_the_way_out(special: Path, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedBranchError) as refused:
        convert(special, tmp_path / "tree.root")
    for message in (
        "maybe: a TTree branch cannot store values that may be missing",
        "either: a TTree branch cannot store values of several types",
        "deep: a TTree branch cannot store nested lists of this type",
    ):
        assert message in refused.value.what
    assert "--drop 'maybe,either,many,deep'" in str(refused.value)
    convert(special, tmp_path / "tree.root", drop=["maybe", "either", "many", "deep"])
    assert branchline.open(tmp_path / "tree.root")["events"].keys() == ["number"]


def test_names_that_fields_cannot_have_are_changed_and_stay_different(root: Any, tmp_path: Path) -> None:
    root.gInterpreter.Declare(
        """
        void branchline_write_names(const char *path) {
           TFile file(path, "RECREATE");
           TTree tree("events", "");
           int values[4] = {1, 2, 3, 4};
           const char *names[4] = {"a.b", "a_b", "a b", "plain"};
           for (int i = 0; i < 4; ++i) tree.Branch(names[i], &values[i], "v/I");
           tree.Fill(); tree.Write();
        }
        """
    )
    root.branchline_write_names(str(tmp_path / "tree.root"))
    made = convert(tmp_path / "tree.root", tmp_path / "ntuple.root")
    fields = ["a_b_2", "a_b", "a_b_3", "plain"]
    assert made.renamed == (("a.b", "a_b_2"), ("a b", "a_b_3"))
    columns = root.RDataFrame("events", str(tmp_path / "ntuple.root")).AsNumpy(fields)
    assert [int(columns[name][0]) for name in fields] == [1, 2, 3, 4]


def test_what_lies_beside_the_trees_is_named(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "in.root") as file:
        file.mktree("folder/events", {"x": "int32"})
        file["folder/events"].extend({"x": np.arange(5)})
        file.mktree("other", {"y": "int32"})
        for number in range(6):
            file[f"plots/h{number}"] = np.histogram(np.arange(10))
    made = convert(tmp_path / "in.root", tmp_path / "out.root", tree="folder/events")
    assert made.left_out == (
        "objects other than the trees: other (TTree), plots/h0 (TH1D), plots/h1 (TH1D), plots/h2 (TH1D), "
        "plots/h3 (TH1D) and 2 more",
    )
    assert convert(tmp_path / "out.root", tmp_path / "out.parquet").left_out == ()


JET = pa.struct([("pt", pa.float32()), ("hits", pa.list_(pa.int32()))])
JETS: list[Any] = [[{"pt": 1.5, "hits": [1, 2]}, {"pt": 2.5, "hits": []}], [], [{"pt": 3.5, "hits": [3]}]]
WITH_MISSING: list[Any] = [[{"pt": 1.5, "hits": None}, {"pt": None, "hits": [1]}], [], [None]]


def test_records_of_arrow_have_in_rntuples_the_levels_that_they_have_in_parquet(root: Any, tmp_path: Path) -> None:
    table = pa.table(
        {
            "jet": pa.array(JETS, pa.list_(JET)),
            "some": pa.array(WITH_MISSING, pa.list_(JET)),
            "met": pa.array([{"pt": 1.0, "sum": {"x": 1}}, None, {"pt": 3.0, "sum": None}]),
            "deep": pa.array([[[{"x": 1}], []], [], [[{"x": 2}, {"x": 3}]]]),
            "texts": pa.array([["a", "bb"], [], [""]]),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    convert(tmp_path / "in.parquet", tmp_path / "out.root", to="rntuple")
    expected = ak.from_parquet(tmp_path / "in.parquet")
    for opened in (branchline.open, uproot.open):
        found = opened(f"{tmp_path / 'out.root'}:Events").arrays()
        for name in ("jet", "deep", "texts"):
            assert found[name].to_list() == expected[name].to_list()
        # A missing record becomes a record whose members are all missing. The members equal the members in Parquet.
        for path in (("some", "pt"), ("some", "hits"), ("met", "pt"), ("met", "sum", "x")):
            assert found[path].to_list() == expected[path].to_list()
    # RDataFrame does not support lists of records with optional members, but RNTupleReader does.
    assert root.RNTupleReader.Open("Events", str(tmp_path / "out.root")).GetNEntries() == len(expected)
    convert(tmp_path / "in.parquet", tmp_path / "out.root", to="rntuple", drop=["some"], force=True)
    frame = root.RDataFrame("Events", str(tmp_path / "out.root"))
    columns = {"met.pt": "std::optional<double>", "texts": "RVec<std::string>", "deep.x": "RVec<std::int64_t>>"}
    assert {one: frame.GetColumnType(one).endswith(kind) for one, kind in columns.items()} == dict.fromkeys(
        columns, True
    )
    assert frame.GetColumnType("jet.hits") == "ROOT::VecOps::RVec<ROOT::VecOps::RVec<std::int32_t>>"
    assert [list(one) for one in frame.AsNumpy(["jet.pt"])["jet.pt"]] == expected.jet.pt.to_list()


def test_a_value_that_is_missing_at_the_end_makes_its_field_optional_from_the_start(tmp_path: Path) -> None:
    jets = [[{"pt": 1.0}], []] * 20_000
    table = pa.table({"jet": pa.array([*jets, [{"pt": None}]]), "met": pa.array([{"x": 1.0}] * (len(jets) + 1))})
    pq.write_table(table, tmp_path / "in.parquet")
    done: list[int] = []
    made = convert(
        tmp_path / "in.parquet",
        tmp_path / "out.root",
        to="rntuple",
        memory_limit="2 MB",
        progress=lambda one: done.append(one.entries_done),
    )
    assert done != sorted(done), "the values must come in several chunks"
    found = branchline.open(tmp_path / "out.root")["Events"].arrays()
    assert str(found.type.content) == "{jet: var * {pt: ?float64}, met: {x: float64}}"
    assert made.entries == len(found) == len(table)
    assert found.jet[-1].to_list() == [{"pt": None}]
    assert found.jet[:-1].to_list() == jets
