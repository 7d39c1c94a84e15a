"""Enumerations of every size, as members and in containers, fixed-size arrays of pointers, and `std::array`."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import branchline

# Compiling the dictionary takes half a minute.
pytestmark = pytest.mark.long
# The underlying type, and a number that does not fit into the next smaller type.
TYPES = {
    "i8": ("signed char", -5),
    "u8": ("unsigned char", 250),
    "i16": ("short", -3000),
    "u16": ("unsigned short", 60000),
    "i32": ("int", -70000),
    "u32": ("unsigned int", 4000000000),
}
ENTRIES = 4
CODE = """
#include <list>
#include <map>
#include <set>
#include <vector>
#include <TFile.h>
#include <TNamed.h>
#include <TObjArray.h>
#include <TTree.h>
#include <TVirtualStreamerInfo.h>
enum E_{name} : {underlying} {{ A_{name} = 1, B_{name} = {big} }};
struct S_{name} {{
  E_{name} one;
  std::vector<E_{name}> v;
  std::set<E_{name}> s;
  std::list<E_{name}> l;
  std::vector<std::vector<E_{name}>> vv;
  std::map<int, E_{name}> m;
  std::pair<E_{name}, int> p;
  int z;
}};
struct F_{name} {{ int a; E_{name} f[3]; int z; }};
void fill_{name}(TFile* file, int split) {{
  TTree tree("t_{name}", "");
  S_{name} o;
  F_{name} q;
  tree.Branch("o.", &o, 32000, split);
  tree.Branch("q.", &q, 32000, 99);
  for (int i = 0; i < {entries}; i++) {{
    o = S_{name}();
    auto both = [](int number) {{ return number % 2 ? A_{name} : B_{name}; }};
    o.one = both(i);
    o.p = {{both(i), i}};
    o.z = q.z = i;
    for (int j = 0; j < i; j++) {{
      o.v.push_back(both(j));
      o.s.insert(both(j));
      o.l.push_back(both(j));
      o.m[j] = both(j);
    }}
    o.vv = {{o.v, {{both(i)}}}};
    tree.Fill();
  }}
  tree.Write();
}}
#ifdef __CLING__
#pragma link C++ class std::vector<F_{name}>+;
#endif
void fill_only_{name}(TFile* file) {{
  TTree tree("t_{name}", "");
  F_{name} q;
  std::vector<F_{name}> many;
  tree.Branch("q.", &q, 32000, 99);
  tree.Branch("whole.", &q, 32000, 0);
  tree.Branch("many", &many, 32000, 99);
  tree.Branch("whole_many", &many, 32000, 0);
  for (int i = 0; i < {entries}; i++) {{
    q.a = q.z = i;
    for (auto& one : q.f) one = A_{name};
    many.assign(i, q);
    tree.Fill();
  }}
  tree.Write();
}}
"""


@pytest.fixture(scope="module")
def folder(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("enumerations")
    code = "".join(
        CODE.format(name=name, underlying=underlying, big=f"{big}u" if name == "u32" else big, entries=ENTRIES)
        for name, (underlying, big) in TYPES.items()
    )
    (folder / "enumerations.h").write_text(
        code + (Path(__file__).parent / "enumerations.h").read_text(encoding="utf-8")
    )
    root.gSystem.Load("libROOTNTuple")
    # Disable optimizations: the code runs for milliseconds only, and compiling takes twice as long with optimizations.
    optimizations = str(root.gSystem.GetFlagsOpt())
    root.gSystem.SetFlagsOpt("-O0")
    root.gROOT.ProcessLine(f".L {folder}/enumerations.h+")
    root.gSystem.SetFlagsOpt(optimizations)
    for split in (0, 99):
        file = root.TFile(str(folder / f"{split}.root"), "RECREATE")
        for name in TYPES:
            getattr(root, f"fill_{name}")(file, split)
        root.fill_pointers(file, split)
        root.fill_arrays(file, split)
        root.fill_one_element(file, split)
        root.fill_wide(file, split)
        file.Close()
    file = root.TFile(str(folder / "only.root"), "RECREATE")
    for name in TYPES:
        getattr(root, f"fill_only_{name}")(file)
    root.fill_array_before_pair(file)
    root.fill_mixed_arrays(file)
    file.Close()
    file = root.TFile(str(folder / "stored_arrays.root"), "RECREATE")
    root.fill_stored_arrays(file)
    file.Close()
    file = root.TFile(str(folder / "containers.root"), "RECREATE")
    root.fill_containers(file)
    root.fill_ntuple(file)
    file.Close()
    file = root.TFile(str(folder / "taken_for_ints.root"), "RECREATE")
    root.fill_taken_for_ints(file, "large", 250)
    root.fill_taken_for_ints(file, "zero", 0)  # four of these, read as an int, are a valid number, too
    root.fill_undescribed(file)
    file.Close()
    file = root.TFile(str(folder / "behind_pointers.root"), "RECREATE")
    for split in (0, 99):
        root.fill_behind_pointers(file, split)
    file.Close()
    return folder


def expected(name: str) -> list[dict[str, Any]]:
    big = TYPES[name][1]
    both = [big if number % 2 == 0 else 1 for number in range(ENTRIES)]
    return [
        {
            "one": both[entry],
            "v": both[:entry],
            "s": sorted(set(both[:entry])),
            "l": both[:entry],
            "vv": [both[:entry], [both[entry]]],
            "m": list(enumerate(both[:entry])),
            "p": {"first": both[entry], "second": entry},
            "z": entry,
        }
        for entry in range(ENTRIES)
    ]


@pytest.mark.peer
@pytest.mark.parametrize("name", TYPES)
def test_objects_with_enumerations_are_read(folder: Path, name: str) -> None:
    got = branchline.open(folder / "0.root")[f"t_{name}"]["o."].array().to_list()
    wanted = expected(name)
    if name == "u32":
        # The file describes members that are not containers as ints, so the number is read as a signed int.
        wrapped = TYPES[name][1] - 2**32
        for entry in wanted:
            entry["one"] = wrapped if entry["one"] > 1 else 1
            entry["p"]["first"] = entry["one"]
    assert got == wanted


@pytest.mark.peer
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("member", ["v", "s", "l", "vv"])
def test_branches_of_enumerations_are_read(folder: Path, name: str, member: str) -> None:
    tree = branchline.open(folder / "99.root")[f"t_{name}"]
    assert tree[f"o./o.{member}"].array().to_list() == [entry[member] for entry in expected(name)]
    assert tree["o./o.z"].array().to_list() == list(range(ENTRIES))


@pytest.mark.peer
@pytest.mark.parametrize("name", TYPES)
def test_branches_beside_arrays_that_root_does_not_store_are_read(folder: Path, name: str) -> None:
    tree = branchline.open(folder / "99.root")[f"t_{name}"]
    assert tree["q./q.z"].array().to_list() == list(range(ENTRIES))
    if name == "i32":
        assert len(tree["q./q.f[3]"].array()) == ENTRIES
        return
    with pytest.raises(branchline.UnsupportedBranchError, match="does not store fixed arrays of this enumeration"):
        tree["q./q.f[3]"].array()
    with pytest.warns(branchline.UnreadableBranchWarning, match="left out"):
        assert not [field for field in tree.arrays().fields if "q.f" in field]


@pytest.mark.peer
def test_enumerations_whose_type_the_file_does_not_say_are_refused_by_name(folder: Path) -> None:
    tree = branchline.open(folder / "containers.root")["containers"]
    assert tree["vector"].array().to_list() == [[250] * entry for entry in range(4)]
    assert tree["z"].array().to_list() == list(range(4))
    for name in ("list", "nested", "keyed"):
        with pytest.raises(branchline.UnsupportedBranchError, match="the integer type of enumeration E_u8"):
            tree[name].array()
    # ROOT does not store the array before this member. The error is still an unsupported branch, not damage.
    with pytest.raises(branchline.UnsupportedBranchError, match="the integer type of enumeration E_u16"):
        tree["unsure"].array()


TAKEN_FOR_INTS = [
    "one./one.a[1]",
    "many/many.v",
    "many/many.a[1]",
    "named/named.second.v",
    "map/map.second",
    "pairs/pairs.second",
    "clones/clones.v",
    "clones/clones.one.v",
    "whole_one.",
    "whole_many",
    "whole_named",
    "whole_map",
    "whole_pairs",
    "whole_clones",
]


@pytest.mark.peer
@pytest.mark.parametrize("numbers", ["large", "zero"])
@pytest.mark.parametrize("branch", TAKEN_FOR_INTS)
def test_numbers_that_root_took_for_ints_are_refused(folder: Path, numbers: str, branch: str) -> None:
    tree = branchline.open(folder / "taken_for_ints.root")[numbers]
    assert tree["many/many.z"].array().to_list() == [list(range(entry + 1)) for entry in range(3)]
    assert tree["one./one.v"].array().to_list() == [
        [250 if numbers == "large" else 0] * (4 + entry) for entry in range(3)
    ]
    with pytest.raises(branchline.UnsupportedBranchError, match="stored several numbers of enumeration E_small as one"):
        tree[branch].array()


@pytest.mark.peer
def test_wide_numbers_that_root_stored_as_ints_are_refused(folder: Path) -> None:
    refused = pytest.raises(branchline.UnsupportedBranchError, match="64-bit numbers of enumeration E_wide as ints")
    with refused:
        branchline.open(folder / "0.root")["wide"]["o."].array()
    tree = branchline.open(folder / "99.root")["wide"]
    for branch in ("v", "s", "p", "m/o.m.second"):
        with refused:
            tree[f"o./o.{branch}"].array()
    assert tree["o./o.vv"].array().to_list() == [[[-5000000000] * entry, [1]] for entry in range(3)]
    assert tree["o./o.z"].array().to_list() == [0, 1, 2]


@pytest.mark.peer
@pytest.mark.parametrize(("tree", "branch"), [("whole", "o."), ("split", "o./o.wide"), ("split", "o./o.narrow")])
def test_numbers_behind_pointers_that_root_stored_as_ints_are_refused(folder: Path, tree: str, branch: str) -> None:
    with (
        branchline.open(folder / "behind_pointers.root") as file,
        pytest.raises(branchline.UnsupportedBranchError, match=r"numbers of enumeration E_.* as (one int|ints)"),
    ):
        file[tree][branch].array()


@pytest.mark.peer
def test_classes_that_the_file_does_not_describe_are_refused_in_memberwise_containers(folder: Path) -> None:
    tree = branchline.open(folder / "taken_for_ints.root")["undescribed"]
    with pytest.raises(branchline.UnsupportedBranchError, match=r"LorentzVector.* which the file does not describe"):
        tree["array"].array()


@pytest.mark.peer
def test_enumerations_in_an_ntuple_have_their_sign(folder: Path) -> None:
    found = branchline.open(folder / "containers.root")["ntuple"].arrays()[0].to_list()
    assert found == {"i8": -5, "u8": 250, "vector": [1, -5]}


@pytest.mark.peer
def test_arrays_of_pointers_are_read(folder: Path) -> None:
    def plain(value: int | None) -> dict[str, int] | None:
        return None if value is None else {"v": value}

    fix = [[plain(10 * i + j if (i + j) % 3 else None) for j in range(3)] for i in range(4)]
    square = [[[None, None], [plain(i if j == i % 2 else None) for j in range(2)]] for i in range(4)]
    split = branchline.open(folder / "99.root")["pointers"]
    assert split["o./o.fix[3]"].array().to_list() == fix
    assert split["o./o.square[2][2]"].array().to_list() == square
    titles = [[None if one is None else one["fTitle"] for one in entry] for entry in split["o./o.named[2]"].array()]
    assert titles == [[f"t{j}" if (i + j) % 2 else None for j in range(2)] for i in range(4)]
    whole = branchline.open(folder / "0.root")["pointers"]["o."].array().to_list()
    assert [entry["fix"] for entry in whole] == fix
    assert [entry["square"] for entry in whole] == square
    assert [entry["z"] for entry in whole] == [0, 1, 2, 3]


@pytest.mark.peer
def test_std_arrays_are_their_elements(folder: Path) -> None:
    place = [[1.5 * i, 2, 3] for i in range(4)]
    places = [[[0.5 + i, 1, 2]] * i for i in range(4)]
    by_number = [[(j, [j, i, -1]) for j in range(i)] for i in range(4)]
    split = branchline.open(folder / "99.root")["arrays"]
    read = split["o./o.places"].array()
    assert read.to_list() == places
    assert str(read.type) == "4 * var * 3 * float32"
    assert split["o./o.by_number"].array().to_list() == by_number
    whole = branchline.open(folder / "0.root")["arrays"]["o."].array().to_list()
    assert [entry["place"] for entry in whole] == place
    assert [entry["places"] for entry in whole] == places
    assert [entry["by_number"] for entry in whole] == by_number


@pytest.mark.peer
@pytest.mark.parametrize("name", TYPES)
def test_arrays_that_root_does_not_store_are_refused_where_nothing_tells_their_type(folder: Path, name: str) -> None:
    tree = branchline.open(folder / "only.root")[f"t_{name}"]
    assert tree["q./q.z"].array().to_list() == list(range(ENTRIES))
    if name == "i32":
        assert tree["q./q.f[3]"].array().to_list() == [[1, 1, 1]] * ENTRIES
    else:
        with pytest.raises(branchline.UnsupportedBranchError, match="does not store fixed arrays of this enumeration"):
            tree["q./q.f[3]"].array()


@pytest.mark.peer
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("branch", ["whole.", "many/many.f[3]", "whole_many"])
def test_objects_with_such_arrays_are_read_or_refused_by_their_reason(folder: Path, branch: str, name: str) -> None:
    tree = branchline.open(folder / "only.root")[f"t_{name}"]
    if name == "i32":
        objects = [{"a": entry, "f": [1, 1, 1], "z": entry} for entry in range(ENTRIES)]
        lists = [[objects[entry]] * entry for entry in range(ENTRIES)]
        wanted = objects if branch == "whole." else lists
        if branch.endswith("f[3]"):
            wanted = [[one["f"] for one in entry] for entry in lists]
        assert tree[branch].array().to_list() == wanted
    else:
        with pytest.raises(branchline.UnsupportedBranchError, match="does not store fixed arrays of"):
            tree[branch].array()


@pytest.mark.peer
def test_the_header_of_an_object_is_not_read_as_an_array(folder: Path) -> None:
    with pytest.raises(branchline.UnsupportedBranchError, match="does not store fixed arrays of enumeration E_u32"):
        branchline.open(folder / "only.root")["array_before_pair/whole."].array()


@pytest.mark.peer
def test_a_file_with_stored_and_omitted_arrays_is_not_called_damaged(folder: Path) -> None:
    with pytest.raises(branchline.UnsupportedBranchError, match="does not store fixed arrays of enumeration E_i16"):
        branchline.open(folder / "only.root")["mixed_arrays/whole."].array()


@pytest.mark.peer
def test_damage_after_stored_arrays_is_damage(folder: Path, tmp_path: Path) -> None:
    [entry] = branchline.open(folder / "stored_arrays.root")["stored_arrays/whole."].array().to_list()
    assert entry == {"one": [-70000] * 3, "two": [1] * 2, "v": [11111, 22222, 33333]}
    content = (folder / "stored_arrays.root").read_bytes()
    vector = struct.pack(">4i", 3, 11111, 22222, 33333)
    assert content.count(vector) == 1
    (tmp_path / "damaged.root").write_bytes(content.replace(vector, struct.pack(">i", 300) + vector[4:]))
    with pytest.raises(branchline.BadFileError):
        branchline.open(tmp_path / "damaged.root")["stored_arrays/whole."].array()


@pytest.mark.peer
@pytest.mark.parametrize("split", [0, 99])
def test_arrays_of_one_element_are_arrays(folder: Path, split: int) -> None:
    tree = branchline.open(folder / f"{split}.root")["one_element"]
    texts, lists = (
        tree["o./o.text[1]"].array() if split else tree["o."].array()["text"],
        tree["o./o.list[1]"].array() if split else tree["o."].array()["list"],
    )
    assert texts.to_list() == [["0"], ["1"], ["2"]]
    assert lists.to_list() == [[[]], [[7]], [[7, 7]]]
    assert (str(texts.type), str(lists.type)) == ("3 * 1 * string", "3 * 1 * var * int32")
    grid = tree["o./o.grid[1][2]"].array() if split else tree["o."].array()["grid"]
    assert str(grid.type) == "3 * 1 * 2 * string"
