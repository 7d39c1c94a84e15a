"""Random numbers of events do not depend on chunks, workers or other wagons."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import awkward as ak
import numpy as np
import pytest
from tests.command_line import run_command
from tests.unit.trains.wagons.conftest import run_in_chunks, write_file

import branchline
from branchline.errors import OptionError
from branchline.trains.wagons.event_random import EventRandom, philox


def test_the_generator_is_philox() -> None:
    """As that of NumPy, which counts before it draws."""
    random = np.random.default_rng(1)
    for _ in range(100):
        low, high = (int(one) for one in random.integers(0, 2**64, 2, dtype=np.uint64))
        counter = [int(one) for one in random.integers(0, 2**64, 4, dtype=np.uint64)]
        whole = sum(word << 64 * place for place, word in enumerate(counter))
        expected = np.random.Philox(counter=(whole - 1) % 2**256, key=low + (high << 64)).random_raw(4)
        words = philox(tuple(np.array([one], np.uint64) for one in counter), (low, high))  # type: ignore[arg-type]
        assert [int(one[0]) for one in words] == [int(one) for one in expected]


def draws(events: Any) -> dict[str, Any]:
    random = branchline.event_random(events, stream="smearing")
    by_run = branchline.event_random(events, ["run", "number"])
    counts = ak.num(events.pt)
    return {
        "uniform": ak.Array(random.uniform(2, 3)),
        "pt": random.normal(1, 0.1, counts=counts),
        "by run": ak.Array(by_run.random()),
        "by run, pt": by_run.random(counts),
    }


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files whose events have numbers."""
    folder = tmp_path_factory.mktemp("numbered")
    for seed in range(2):
        write_file(folder / "all.root", seed)
        with branchline.open(folder / "all.root") as file:
            content = file["events"].arrays()
        with branchline.recreate(folder / f"f{seed}.root") as made:
            made["events"] = {
                "run": np.asarray(content.run),
                "number": np.arange(len(content)) * 7 + 2**40,
                "pt": content.pt,
            }
    (folder / "all.root").unlink()
    return folder


def run(folder: Path, **settings: Any) -> dict[str, Any]:
    made: dict[str, Any] = run_in_chunks(draws, str(folder), **settings).outputs["draws"]
    return {name: ak.to_list(one) for name, one in made.items()}


@pytest.mark.long
def test_numbers_are_the_same_for_any_size_of_chunks(numbered: Path) -> None:
    expected = run(numbered, step_size=10**6)
    for step in (7, 100, 811):
        assert run(numbered, step_size=step) == expected
    assert run(numbered, step_size=300, workers=2) == expected
    assert len(set(expected["uniform"])) == len(expected["uniform"]) == 3000
    assert all(2 <= one < 3 for one in expected["uniform"])
    flat = np.concatenate([*map(np.array, expected["pt"])])
    assert abs(np.mean(flat) - 1) < 5 * 0.1 / np.sqrt(len(flat))
    assert abs(np.std(flat) - 0.1) < 5 * 0.1 / np.sqrt(2 * len(flat))
    assert abs(np.corrcoef(expected["uniform"], expected["by run"])[0, 1]) < 5 / np.sqrt(3000)


def test_other_seeds_streams_and_files_give_other_numbers(numbered: Path, tmp_path: Path) -> None:
    expected = run(numbered)
    assert run(numbered, seed=0) == expected
    other = run(numbered, seed=1)
    assert not set(other["uniform"]) & set(expected["uniform"])
    assert not set(other["by run"]) & set(expected["by run"])
    # Named by branches, events have the same numbers in another file.
    (tmp_path / "moved").mkdir()
    for one in numbered.iterdir():
        (tmp_path / "moved" / one.name).write_bytes(one.read_bytes())
    moved = run(tmp_path / "moved")
    assert moved["by run"] == expected["by run"]
    assert moved["by run, pt"] == expected["by run, pt"]
    assert moved["uniform"] != expected["uniform"]


def test_entries_of_a_part_of_a_chunk_are_not_known() -> None:
    metadata = {"filename": "a.root", "treename": "t", "entrystart": 10, "entrystop": 20}

    class Part(SimpleNamespace):
        def __len__(self) -> int:
            return 9

    with pytest.raises(OptionError, match="9 of the 10 events of the chunk"):
        branchline.event_random(Part(metadata=metadata))
    whole = EventRandom((1, 2), np.arange(4, dtype=np.uint64))
    part = EventRandom((1, 2), np.arange(2, 4, dtype=np.uint64))
    assert whole.normal()[2:].tolist() == part.normal().tolist()
    with pytest.raises(OptionError, match="4 events, but 3 counts"):
        whole.random([1, 2, 3])


def test_the_seed_is_recorded_and_kept_results_are_those_of_the_seed(numbered: Path, tmp_path: Path) -> None:
    wagons = tmp_path / "wagons.py"
    wagons.write_text(
        "import random\n\n\nclass Draws:\n    def process(self, events):\n        return [random.random()]\n"
    )
    found = []
    for seed in ("1", "1", "2"):
        words = ["run", wagons, numbered, "-o", tmp_path / "out", "--force", "--seed", seed, "--workers", "1"]
        done = run_command([*words, "--pictures", "none"])
        assert done.exit_code == 0, done.output
        job = json.loads((tmp_path / "out" / "job.json").read_text())
        assert job["seed"] == int(seed)
        found.append((branchline.load(tmp_path / "out")["Draws"], job["subjobs_reused"]))
    assert found[0][0] == found[1][0] != found[2][0]
    assert found[1][1] > 0
    assert found[2][1] == 0


@pytest.mark.parametrize("seed", [-1, 1.5, "x"])
def test_a_seed_is_a_whole_number(numbered: Path, seed: Any) -> None:
    with pytest.raises(OptionError, match="seed"):
        branchline.run(draws, str(numbered), seed=seed)
