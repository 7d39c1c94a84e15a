"""Variants in RNTuples that refer to their elements in another order than the stored one, which ROOT never does."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import branchline
from branchline.writing.merging.merge import merge

WRITER = """
#include <ROOT/RNTupleModel.hxx>
#include <ROOT/RNTupleReader.hxx>
#include <ROOT/RNTupleWriteOptions.hxx>
#include <ROOT/RNTupleWriter.hxx>
#include <string>
#include <variant>
#include <vector>

namespace branchline_variants {
using Variant = std::variant<int, std::string, std::vector<float>>;

void write(const char *path, std::size_t cluster_entries) {
   auto model = ROOT::RNTupleModel::Create();
   auto field = model->MakeField<Variant>("v");
   ROOT::RNTupleWriteOptions options;
   options.SetCompression(0);
   options.SetEnablePageChecksums(false);
   auto writer = ROOT::RNTupleWriter::Recreate(std::move(model), "tuple", path, options);
   std::vector<Variant> values{10, "one", 20, std::vector<float>{1, 2}, "two", 30, std::vector<float>{}, "three",
                               std::vector<float>{3, 4, 5}};
   for (std::size_t entry = 0; entry < values.size(); ++entry) {
      if (entry > 0 && entry % cluster_entries == 0) writer->CommitCluster();
      *field = values[entry];
      writer->Fill();
   }
}

std::vector<std::string> read(const char *path) {
   auto reader = ROOT::RNTupleReader::Open("tuple", path);
   auto view = reader->GetView<Variant>("v");
   std::vector<std::string> all;
   for (auto entry : reader->GetEntryRange()) {
      const auto &value = view(entry);
      if (value.index() == 0) all.push_back(std::to_string(std::get<0>(value)));
      if (value.index() == 1) all.push_back(std::get<1>(value));
      if (value.index() == 2) {
         std::string floats = "[";
         for (auto one : std::get<2>(value)) floats += std::to_string((int)one) + " ";
         all.push_back(floats + "]");
      }
   }
   return all;
}
}
"""
# Index and tag of each entry: as ROOT writes them, for the same values in another order, and with unused elements.
WRITTEN = [(0, 1), (0, 2), (1, 1), (0, 3), (1, 2), (2, 1), (1, 3), (2, 2), (2, 3)]
CHANGED = [(2, 1), (1, 2), (0, 1), (2, 3), (2, 2), (1, 1), (0, 3), (0, 2), (1, 3)]
LEFT_OUT = [(2, 1), (1, 2), (0, 1), (2, 3), (2, 2), (0, 0), (0, 3), (0, 0), (0, 0)]


def plain(values: list[Any]) -> list[str]:
    """Convert Branchline's values to the strings that ROOT's reader above returns."""
    as_text = lambda one: "[" + "".join(f"{int(x)} " for x in one) + "]" if isinstance(one, list) else str(one)  # noqa: E731
    return [as_text(value) for value in values if value is not None]


@pytest.fixture(scope="module")
def variants(root: Any) -> Any:
    if not hasattr(root, "branchline_variants"):
        root.gInterpreter.Declare(WRITER)
    return root.branchline_variants


def changed(path: Path, switches: list[tuple[int, int]]) -> None:
    """Replace the page with the indexes and tags."""
    page = b"".join(struct.pack("<QI", *one) for one in WRITTEN)
    content = path.read_bytes()
    assert content.count(page) == 1
    path.write_bytes(content.replace(page, b"".join(struct.pack("<QI", *one) for one in switches)))


@pytest.mark.peer
@pytest.mark.parametrize("switches", [WRITTEN, CHANGED, LEFT_OUT])
def test_variants_in_any_order_are_read_as_root_reads_them(
    variants: Any, tmp_path: Path, switches: list[tuple[int, int]]
) -> None:
    path = tmp_path / "variants.root"
    variants.write(str(path), 100)
    changed(path, switches)
    expected = [str(one) for one in variants.read(str(path))]
    assert plain(branchline.open(path)["tuple"]["v"].array().tolist()) == expected
    if switches is CHANGED:
        assert expected[:4] == ["30", "two", "10", "[3 4 5 ]"]
    tree = branchline.open(path)["tuple"]
    parts = [tree["v"].array(entry_start=start, entry_stop=start + 2).tolist() for start in range(0, 9, 2)]
    assert plain([value for part in parts for value in part]) == expected


@pytest.mark.peer
def test_variants_in_any_order_are_moved_to_new_clusters(variants: Any, tmp_path: Path) -> None:
    path, other, merged = (tmp_path / f"{name}.root" for name in ("variants", "other", "merged"))
    for one in (path, other):
        variants.write(str(one), 100)
        changed(one, CHANGED)
    merge([str(path), str(other)], str(merged), cluster_events=4)
    expected = [str(one) for one in variants.read(str(path))] * 2
    assert plain(branchline.open(merged)["tuple"]["v"].array().tolist()) == expected
    assert [str(one) for one in variants.read(str(merged))] == expected


@pytest.mark.peer
def test_variants_of_several_clusters_are_read_as_root_reads_them(variants: Any, tmp_path: Path) -> None:
    # uproot treats indexes as relative to the start of the file, so it reads values of the first cluster in all
    # clusters.
    path = tmp_path / "variants.root"
    variants.write(str(path), 2)
    expected = [str(one) for one in variants.read(str(path))]
    assert expected == ["10", "one", "20", "[1 2 ]", "two", "30", "[]", "three", "[3 4 5 ]"]
    assert plain(branchline.open(path)["tuple"]["v"].array().tolist()) == expected
