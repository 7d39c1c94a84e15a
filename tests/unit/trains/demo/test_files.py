"""The demo's files are made once, kept while their parameters are the wanted ones, and never seen half made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import awkward as ak
import pytest
import uproot

from branchline.errors import OptionError
from branchline.trains.demo import demo_files

WANTED = demo_files.Parameters(seed=7, index=0, events_count=20, compression="zlib")
# What stands before the compressed bytes of a record.
CODEC_TAGS = {"zlib": b"ZL", "lzma": b"XZ", "lz4": b"L4", "zstd": b"ZS"}


@pytest.fixture(scope="module")
def branches(collisions: Path) -> dict[str, ak.Array]:
    events = uproot.open(f"{collisions}/collisions-000.root:events").arrays()
    return {name: events[name] for name in events.fields if name != demo_files.COUNT_NAME}


@pytest.fixture
def path(tmp_path: Path, branches: dict[str, ak.Array]) -> Path:
    path = tmp_path / "collisions-000.root"
    demo_files.write_tree(path, branches, WANTED)
    return path


def test_made_files_are_kept_the_next_time_and_missing_ones_made(collisions: Path, tmp_path: Path) -> None:
    kept = tmp_path / "collisions-000.root"
    kept.write_bytes((collisions / kept.name).read_bytes())
    steps: list[demo_files.DemoProgress] = []
    paths = demo_files.make_data(tmp_path, files=2, events_per_file=20, seed=7, workers=1, progress=steps.append)
    assert [(step.path, step.kept, step.files_done, step.events_done) for step in steps] == [
        (paths[0], True, 1, 20),
        (paths[1], False, 2, 40),
    ]
    assert (tmp_path / demo_files.LIST_NAME).read_text() == "collisions-000.root\ncollisions-001.root\n"


def test_an_interruption_keeps_what_is_made_and_begins_no_more(tmp_path: Path) -> None:
    def interrupted(step: demo_files.DemoProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo_files.make_data(tmp_path, files=8, events_per_file=2, workers=1, progress=interrupted)
    # One is made, one more is in the making, and up to three were handed over to the worker by then.
    assert 1 <= len(list(tmp_path.glob("*.root"))) <= 5
    assert not (tmp_path / demo_files.LIST_NAME).exists()


@pytest.mark.parametrize("other", [{"seed": 8}, {"index": 1}, {"events_count": 4}, {"compression": "lz4"}])
def test_a_file_is_kept_for_its_own_parameters_only(path: Path, other: dict[str, object]) -> None:
    assert demo_files.is_kept(path, WANTED)
    assert not demo_files.is_kept(path, replace(WANTED, **other))


@pytest.mark.parametrize("size", [0, 50, 1000])
def test_a_file_cut_short_is_not_kept(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])
    assert not demo_files.is_kept(path, WANTED)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "other collisions: 20 events with seed 7"), (b"mine", "not a complete file of simulated collisions")],
    ids=["other-events", "not-ours"],
)
def test_a_file_with_other_content_is_replaced_only_by_force(path: Path, content: bytes | None, reason: str) -> None:
    if content is not None:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(OptionError, match=f"{path.name} .*{reason}.*--force"):
        demo_files.make_data(path.parent, files=2, events_per_file=2, seed=7, workers=1)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    demo_files.make_data(path.parent, files=1, events_per_file=2, seed=7, workers=1, force=True)
    assert demo_files.is_kept(path, replace(WANTED, events_count=2))


def test_a_file_that_an_older_version_simulated_is_made_again(tmp_path: Path, branches: dict[str, ak.Array]) -> None:
    old = replace(WANTED, content_version=0)
    demo_files.write_tree(tmp_path / "collisions-000.root", branches, old)
    (path,) = demo_files.make_data(tmp_path, files=1, events_per_file=20, seed=7, workers=1)
    assert demo_files.is_kept(path, WANTED)


def test_an_interrupted_write_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted(part: Path) -> None:
        part.write_bytes(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo_files.write_whole(tmp_path / "file.root", interrupted)
    assert list(tmp_path.iterdir()) == []


def test_a_codec_that_is_not_there_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="zlib, lzma, lz4, zstd, none"):
        demo_files.make_data(tmp_path / "data", compression="brotli")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("compression", demo_files.CODECS)
def test_baskets_are_written_in_the_wanted_codec(
    tmp_path: Path, branches: dict[str, ak.Array], compression: str
) -> None:
    path = tmp_path / "file.root"
    demo_files.write_tree(path, branches, replace(WANTED, compression=compression))
    with uproot.open(path) as file:
        branch = file["events"]["px"]
        assert branch.array().to_list() == branches["px"].to_list()
        start = branch.member("fBasketSeek")[0] + branch.basket_key(0).fKeylen
    tag = path.read_bytes()[start : start + 2]
    assert tag == CODEC_TAGS[compression] if compression != "none" else tag not in CODEC_TAGS.values()
