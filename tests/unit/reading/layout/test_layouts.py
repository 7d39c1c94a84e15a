"""The layout of real files: equal to what uproot knows of their baskets, with advice that people can follow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.lab.advice.proposals import proposals
from branchline.lab.forecast.subject import subject_of
from branchline.reading.layout.dataset_layout import inspect_dataset
from branchline.reading.layout.file_layout import inspect_file
from branchline.reading.layout.file_picture import draw
from branchline.writing.merging.convert import convert


def write(path: Path, steps: list[int], names: tuple[str, ...] = ("a", "b"), codec: Any = None) -> Path:
    with uproot.recreate(path, compression=codec or uproot.ZLIB(1)) as file:
        file.mktree("events", dict.fromkeys(names, "f8"))
        for entries in steps:
            file["events"].extend({name: np.arange(entries) // 7.0 for name in names})
    return path


def test_baskets_lie_where_uproot_finds_them(collisions: Path) -> None:
    path = sorted(collisions.glob("*.root"))[0]
    layout = inspect_file(f"{path}:events")
    tree = uproot.open(path)["events"]
    for branch in layout.branches:
        peer = tree[branch.path]
        number = next(number for number, name in layout.numbers.items() if name == branch.path)
        own = layout.extents.of([number])
        assert list(own.offset) == list(peer.member("fBasketSeek")[: peer.num_baskets])
        assert list(own.size) == list(peer.member("fBasketBytes")[: peer.num_baskets])
        assert [*own.entry_start, own.entry_stop[-1]] == list(peer.entry_offsets)
        assert branch.plain_bytes == peer.uncompressed_bytes
    assert layout.compressed_bytes == layout.extents.stored_bytes == layout.travel.wanted_bytes


def test_pages_of_an_ntuple_fill_what_its_fields_take(tmp_path: Path) -> None:
    path = tmp_path / "ntuple.root"
    with uproot.recreate(path) as file:
        file.mkrntuple("events", {"x": np.arange(1000.0), "hits": ak.Array([[1.0, 2.0], [3.0]] * 500)})
    layout = inspect_file(f"{path}:events")
    assert layout.is_ntuple
    assert {branch.path for branch in layout.branches} == {"x", "hits"}
    assert layout.travel.wanted_bytes >= layout.compressed_bytes > 0
    assert layout.clusters.count == 1
    stored = path.read_bytes()
    assert all(0 < offset < len(stored) for offset in layout.extents.offset)


def test_a_few_branches_have_gaps_between_them(tmp_path: Path) -> None:
    path = write(tmp_path / "f.root", [10_000] * 4)
    every, one = inspect_file(f"{path}:events"), inspect_file(f"{path}:events", ["b"])
    assert one.wanted == ("b",)
    assert one.travel.baskets == 4
    assert every.travel.baskets == 8
    assert one.gaps.count == 3
    assert one.gaps.total_bytes > every.gaps.total_bytes
    assert one.disk_pages.with_others > 0
    assert every.clusters.count == 4
    assert every.clusters.entries.least == every.clusters.entries.most == 10_000
    with pytest.raises(branchline.NoSuchKeyError, match="matches 'c"):
        inspect_file(f"{path}:events", ["c*"])


@pytest.mark.parametrize(("etas", "lists"), [([3.5, 4.5], 2), ([1.5, 2.5], 1)], ids=["ends alone", "values too"])
def test_pages_that_several_fields_show_count_once(tmp_path: Path, etas: list[float], lists: int) -> None:
    values = {name: ak.Array([numbers] * 999) for name, numbers in (("pt", [1.5, 2.5]), ("eta", etas))}
    with uproot.recreate(tmp_path / "tree.root") as file:
        types = {name: array.type for name, array in values.items()}
        file.mktree("events", types, counter_name=lambda counted: "n")
        file["events"].extend(values | {"n": np.full(999, 2)})
    convert([str(tmp_path / "tree.root")], tmp_path / "fields.root", codec="none")
    layout = inspect_file(f"{tmp_path / 'fields.root'}:events")
    assert {"pt", "eta", "_collection0"} <= {branch.path for branch in layout.branches}
    assert 999 * 2 * 8 * lists < layout.compressed_bytes < min(layout.size_bytes, 999 * 2 * 8 * (lists + 1))
    assert layout.codecs == {"none": layout.compressed_bytes}


def test_advice_of_inspect_is_that_of_advise(tmp_path: Path) -> None:
    path = write(tmp_path / "f.root", [200_000] * 4, codec=uproot.LZMA(1))
    printed = json.loads(run_command(["inspect", f"{path}:events", "--json"]).output)
    # Its gain is measured: on a busy machine it may not be certain.
    for one in printed["advice"]:
        assert one["gain"]["low"] > 0
        assert one["id"] != "codec" or one["change"] == f"branchline recompress {path} -o zstd.root --codec zstd:5"
    assert "codec" in [proposal.id for proposal in proposals(subject_of([f"{path}:events"]))]


def test_inspect_of_damaged_baskets_says_that_there_is_no_advice(tmp_path: Path) -> None:
    path = Path(write(tmp_path / "f.root", [50_000] * 4))
    content = bytearray(path.read_bytes())
    # In the middle are baskets; the metadata are at both ends.
    first, last = len(content) * 2 // 5, len(content) * 3 // 5
    content[first:last] = bytes(last - first)
    path.write_bytes(content)
    shown = run_command(["inspect", f"{path}:events"])
    assert shown.exit_code == 0, shown.output
    assert "reading all branches, entry by entry" in shown.stdout
    assert "No known change" not in shown.stdout
    assert "no advice, because a sample cannot be read" in shown.stderr
    assert json.loads(run_command(["inspect", f"{path}:events", "--json"]).stdout)["advice"] is None


def test_branches_of_one_basket_each_are_not_rewritten_for_larger_baskets(tmp_path: Path) -> None:
    # A forecast would find a gain, but there is nothing to join.
    one = write(tmp_path / "one.root", [200])
    several = write(tmp_path / "several.root", [200] * 20)
    proposed = {
        path: {proposal.id for proposal in proposals(subject_of([f"{path}:events"]))} for path in (one, several)
    }
    assert "layout-baskets" in proposed[several]
    assert "layout-baskets" not in proposed[one]


def test_a_dataset_tells_small_files_other_codecs_and_other_branches(tmp_path: Path) -> None:
    write(tmp_path / "1.root", [10])
    write(tmp_path / "2.root", [20])
    write(tmp_path / "3.root", [30], ("a", "c"), uproot.LZ4(1))
    (tmp_path / "4.root").write_bytes(b"nothing")
    layout = inspect_dataset([str(tmp_path / "*.root")], "events")
    assert layout.entries == 60
    assert len(layout.files) == 3
    assert [Path(path).name for path, _ in layout.bad] == ["4.root"]
    (other,) = layout.differences
    assert (other.missing, other.additional, other.other_types) == (("b",), ("c",), ())
    sentences = " ".join(layout.remarks())
    for expected in (
        "1 file cannot be read",
        "lz4 in 1 file",
        "3.root lacks b and has additional branches c.",
    ):
        assert expected in sentences


def test_baskets_that_do_not_become_smaller_are_no_other_codec(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for number in range(2):
        with uproot.recreate(tmp_path / f"{number}.root", compression=uproot.ZLIB(1)) as file:
            file.mktree("events", {"random": np.uint64, "same": np.int64})
            file["events"].extend(
                {"random": rng.integers(2**63, size=999, dtype=np.uint64), "same": np.zeros(999, int)}
            )
    layout = inspect_dataset([str(tmp_path / "*.root")], "events")
    assert {tuple(sorted(one.codecs)) for one in layout.files} == {("none", "zlib")}
    assert "odecs differ" not in " ".join(layout.remarks())


def test_the_command_prints_a_table_or_json_and_draws(tmp_path: Path) -> None:
    path = write(tmp_path / "f.root", [100, 100])
    picture = tmp_path / "f.svg"
    shown = run_command(["inspect", f"{path}:events", "--picture", str(picture)])
    assert shown.exit_code == 0, shown.output
    assert "4 baskets" in shown.output
    assert "reading all branches, entry by entry" in shown.output
    assert "<svg" in picture.read_text()
    printed = json.loads(run_command(["inspect", f"{path}:events", "--branches", "a", "--json"]).output)
    assert printed["physical"]["branches"] == ["a"]
    assert printed["physical"]["travel"]["baskets"] == 2
    shutil.copy(path, tmp_path / "g.root")
    printed = json.loads(run_command(["inspect", f"{tmp_path}/*.root", "--json"]).output)
    assert len(printed["files"]) == 2
    assert printed["entries"] == 400


def test_files_that_cannot_be_read_show_in_the_exit_code(tmp_path: Path) -> None:
    path = write(tmp_path / "f.root", [10])
    bad = [tmp_path / name for name in ("g.root", "h.root")]
    for one in bad:
        one.write_bytes(b"nothing")
    other = write(tmp_path / "e.root", [10])
    for files, code in (((path, other), 0), ((path, bad[0]), 3), (bad, 1)):
        done = run_command(["inspect", *(f"{one}:events" for one in files)])
        assert done.exit_code == code, done.output
        assert done.output.count("g.root: ") <= 2  # in the list, and in the sentence


def test_a_picture_needs_a_directory_that_is_there(tmp_path: Path) -> None:
    layout = inspect_file(f"{write(tmp_path / 'f.root', [100])}:events")
    with pytest.raises(branchline.OptionError, match="create the directory"):
        draw(layout, tmp_path / "none" / "a.png")
    assert not (tmp_path / "none").exists()


def test_the_same_file_gives_the_same_picture(tmp_path: Path) -> None:
    layout = inspect_file(f"{write(tmp_path / 'f.root', [100])}:events")
    for name in ("a.png", "b.png"):
        draw(layout, tmp_path / name)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    with pytest.raises(branchline.OptionError, match="svg or"):
        draw(layout, tmp_path / "f.pdf")
