"""Enumerations in pairs and maps. In some enclosing types, ROOT stores them with a different size, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import branchline

# Compiling the dictionary takes longer than all other tests of enumerations.
pytestmark = pytest.mark.long
# The underlying type, and a number that does not fit into the next smaller type.
TYPES = {
    "i8": ("signed char", -5),
    "u16": ("unsigned short", 60000),
    "u32": ("unsigned int", 4000000000),
    "i64": ("long", -5000000000),
}
ENTRIES = 4
NOT_STORED = "PairE_i64, which the file does not describe"
CODE = """
#include <list>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>
#include <TFile.h>
#include <TTree.h>
#include <TVirtualStreamerInfo.h>
enum PairE_{name} : {underlying} {{ PairA_{name} = 1, PairB_{name} = {big} }};
struct Pairs_{name} {{
  std::pair<PairE_{name}, int> first;
  std::pair<int, PairE_{name}> second;
  std::pair<PairE_{name}, PairE_{name}> both;
  std::pair<int, std::pair<PairE_{name}, int>> nested;
  std::vector<std::pair<PairE_{name}, int>> pairs;
  std::map<PairE_{name}, int> keys;
  std::map<int, PairE_{name}> values;
  std::map<PairE_{name}, std::vector<int>> lists;
  std::map<int, std::pair<int, PairE_{name}>> inner;
  std::pair<PairE_{name}, unsigned long> wide;
  std::pair<PairE_{name}, Long64_t> long64;
  std::pair<Double_t, PairE_{name}> number;
  std::pair<PairE_{name}, std::list<Long64_t>> listed;
  std::pair<std::multiset<ULong64_t>, PairE_{name}> ordered;
  std::pair<PairE_{name}, std::list<unsigned char>> without_dictionary;
  std::map<PairE_{name}, std::list<Long64_t>> lists64;
  std::map<PairE_{name}, std::unordered_set<unsigned>> sets;
  int z;
}};
void fill_pairs_{name}(int split, bool memberwise) {{
  TVirtualStreamerInfo::SetStreamMemberWise(memberwise);
  TTree tree("t_{name}", "");
  Pairs_{name} o;
  std::vector<Pairs_{name}> many;
  auto* pairs = &o.pairs;
  auto* keys = &o.keys;
  auto* values = &o.values;
  auto* inner = &o.inner;
  tree.Branch("o.", &o, 32000, split);
  tree.Branch("many", &many, 32000, split);
  tree.Branch("first", "pair<PairE_{name},int>", &o.first, 32000, split);
  tree.Branch("pairs", "vector<pair<PairE_{name},int>>", &pairs, 32000, split);
  tree.Branch("keys", "map<PairE_{name},int>", &keys, 32000, split);
  tree.Branch("values", "map<int,PairE_{name}>", &values, 32000, split);
  tree.Branch("inner", "map<int,pair<int,PairE_{name}>>", &inner, 32000, split);
  auto one = [](int number) {{ return number % 2 ? PairA_{name} : PairB_{name}; }};
  for (int i = 0; i < {entries}; i++) {{
    o = Pairs_{name}();
    o.first = {{one(i), i}};
    o.second = {{i, one(i)}};
    o.both = {{one(i), one(i + 1)}};
    o.nested = {{i, {{one(i), 9}}}};
    for (int j = 0; j < i; j++) {{
      o.pairs.push_back({{one(j), j}});
      o.keys[one(j)] = j;
      o.values[j] = one(j);
      o.lists[one(j)] = {{j, 5}};
      o.inner[j] = {{3, one(j)}};
      o.lists64[one(j)] = {{j, 6}};
      o.sets[one(j)] = {{8}};
    }}
    o.wide = {{one(i), i}};
    o.long64 = {{one(i), -i}};
    o.number = {{i, one(i)}};
    o.listed = {{one(i), {{1, 2}}}};
    o.ordered = {{{{3, 4}}, one(i)}};
    o.without_dictionary = {{one(i), {{5}}}};
    o.z = i;
    many.assign(2, o);
    tree.Fill();
  }}
  tree.Write();
  TVirtualStreamerInfo::SetStreamMemberWise(true);
}}
#ifdef __CLING__
#pragma link C++ class std::pair<PairE_{name},int>+;
#pragma link C++ class std::pair<int,PairE_{name}>+;
#pragma link C++ class std::vector<std::pair<PairE_{name},int>>+;
#pragma link C++ class std::map<PairE_{name},int>+;
#pragma link C++ class std::map<int,PairE_{name}>+;
#pragma link C++ class std::map<int,std::pair<int,PairE_{name}>>+;
#pragma link C++ class std::list<Long64_t>+;
#pragma link C++ class std::multiset<ULong64_t>+;
#pragma link C++ class std::unordered_set<unsigned>+;
#pragma link C++ class std::vector<Pairs_{name}>+;
#endif
"""


@pytest.fixture(scope="module")
def folder(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    code = "".join(
        CODE.format(name=name, underlying=underlying, big=f"{big}u" if name == "u32" else big, entries=ENTRIES)
        for name, (underlying, big) in TYPES.items()
    )
    (folder / "pairs.h").write_text(code)
    # Disable optimizations: the code runs for milliseconds only, and compiling takes twice as long with optimizations.
    optimizations = str(root.gSystem.GetFlagsOpt())
    root.gSystem.SetFlagsOpt("-O0")
    root.gROOT.ProcessLine(f".L {folder}/pairs.h+")
    root.gSystem.SetFlagsOpt(optimizations)
    for split in (0, 99):
        for memberwise in (False, True):
            file = root.TFile(str(folder / f"{split}-{memberwise}.root"), "RECREATE")
            for name in TYPES:
                getattr(root, f"fill_pairs_{name}")(split, memberwise)
            file.Close()
    return folder


def expected(name: str) -> list[dict[str, Any]]:
    """Return the expected members of each entry. ROOT describes enumerations in pairs as ints, and omits 64-bit
    enumerations.
    """
    big = TYPES[name][1]
    in_pair = big - 2**32 if name == "u32" else big
    is_stored = name != "i64"

    def one(number: int, big: int = big) -> int:
        return 1 if number % 2 else big

    def pair(**members: Any) -> dict[str, Any]:
        return members

    def pair_of(number: int, second: Any) -> dict[str, Any]:
        return pair(first=one(number, in_pair), second=second) if is_stored else pair(second=second)

    def entry(i: int) -> dict[str, Any]:
        numbers = sorted({one(j): j for j in range(i)}.items())
        behind = {"second": one(i, in_pair)} if is_stored else {}
        return {
            "first": pair_of(i, i),
            "second": {"first": i} | behind,
            "both": {"first": one(i, in_pair), "second": one(i + 1, in_pair)} if is_stored else {},
            "nested": {"first": i, "second": pair_of(i, 9)},
            "pairs": [pair_of(j, j) for j in range(i)],
            "keys": numbers,
            "values": [(j, one(j)) for j in range(i)],
            "lists": [(number, [j, 5]) for number, j in numbers],
            "inner": [(j, {"first": 3} | ({"second": one(j, in_pair)} if is_stored else {})) for j in range(i)],
            "wide": pair_of(i, i),
            "long64": pair_of(i, -i),
            "number": {"first": float(i)} | behind,
            "listed": pair_of(i, [1, 2]),
            "ordered": {"first": [3, 4]} | behind,
            "without_dictionary": {"first": one(i, in_pair)} if is_stored else {},
            "lists64": [(number, [j, 6]) for number, j in numbers],
            "sets": [(number, [8]) for number, j in numbers],
            "z": i,
        }

    return [entry(i) for i in range(ENTRIES)]


@pytest.mark.peer
@pytest.mark.parametrize("memberwise", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_whole_objects_and_containers(folder: Path, name: str, memberwise: bool) -> None:
    tree = branchline.open(folder / f"0-{memberwise}.root")[f"t_{name}"]
    wanted = expected(name)
    for branch in ("first", "pairs", "inner"):
        assert tree[branch].array().to_list() == [entry[branch] for entry in wanted], branch
    if name == "i64" and memberwise:
        # The file contains neither keys nor values.
        for branch in ("o.", "many", "keys", "values"):
            with pytest.raises(branchline.UnsupportedBranchError, match=NOT_STORED):
                tree[branch].array()
        return
    for branch in ("keys", "values"):
        assert tree[branch].array().to_list() == [entry[branch] for entry in wanted], branch
    assert tree["o."].array().to_list() == wanted
    assert tree["many"].array().to_list() == [[entry, entry] for entry in wanted]


@pytest.mark.peer
@pytest.mark.parametrize("memberwise", [False, True])
@pytest.mark.parametrize("name", TYPES)
def test_split_objects_and_containers(folder: Path, name: str, memberwise: bool) -> None:
    tree = branchline.open(folder / f"99-{memberwise}.root")[f"t_{name}"]
    wanted = expected(name)
    stored = [("second", "first"), ("wide", "second"), ("number", "first"), ("pairs", "second"), ("values", "first")]
    if name != "i64":
        stored += [("first", "first"), ("second", "second"), ("both", "second"), ("pairs", "first")]
        stored += [("wide", "first"), ("number", "second"), ("keys", "first"), ("values", "second")]
    big = TYPES[name][1]
    # In separate branches, the keys and values of a map are stored as members of pairs.
    wrapped = {big: big - 2**32} if name == "u32" else {}
    for member, part in stored:
        values = [_part(entry[member], part) for entry in wanted]
        values = [[wrapped.get(one, one) for one in value] if isinstance(value, list) else value for value in values]
        assert tree[f"o./o.{member}/o.{member}.{part}"].array().to_list() == values, (member, part)
    assert tree["o./o.z"].array().to_list() == [entry["z"] for entry in wanted]
    for member in ("pairs", "inner", "lists", "sets"):
        found = tree[f"many/many.{member}"].array().to_list()
        assert found == [[entry[member]] * 2 for entry in wanted], member
    for member in ("keys", "values", "lists64"):
        branch = tree[f"many/many.{member}"]
        if name == "i64" and memberwise:
            with pytest.raises(branchline.UnsupportedBranchError, match=NOT_STORED):
                branch.array()
        else:
            assert branch.array().to_list() == [[entry[member]] * 2 for entry in wanted], member


def _part(value: Any, part: str) -> Any:
    """Return the first or second member of a pair, or of each pair in a list."""
    if isinstance(value, list):
        return [_part(one, part) for one in value]
    return value[part] if isinstance(value, dict) else value[part == "second"]
