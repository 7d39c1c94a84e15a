"""Corrections and models: loaded once in each process, sent with the train, and a part of the key of a result."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import uproot

from branchline.errors import BadFileError, MissingFileError, OptionError, StorageError
from branchline.trains.reuse.canonical import Canonical, UnknownValueError
from branchline.trains.reuse.result_keys import WagonKeys
from branchline.trains.subjobs.picklable import pickling_error
from branchline.trains.wagons import loaded_files
from branchline.trains.wagons.loaded_files import loaded
from branchline.trains.wagons.wagons import Wagon, load_wagons

CALLS: list[str] = []


def table_of(path: str, factor: float = 1.0) -> dict[str, float]:
    CALLS.append(path)
    return {name: factor * value for name, value in json.loads(Path(path).read_text()).items()}


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "table.json"
    path.write_text('{"a": 1.0, "b": 2.5}')
    CALLS.clear()
    loaded_files._objects.clear()
    yield path
    loaded_files._objects.clear()


def key_of(value: object) -> str:
    canonical = Canonical(lambda *_: None)
    canonical.add(value, "it")
    return canonical.hexdigest()


def test_it_is_loaded_once_when_it_is_used(table: Path) -> None:
    first, second = loaded(table_of, table), loaded(table_of, table)
    doubled = loaded(table_of, table, factor=2.0)
    assert CALLS == []
    assert (first["a"], second["b"], doubled["b"]) == (1.0, 2.5, 5.0)
    assert len(CALLS) == 2
    assert dict(first.items()) == {"a": 1.0, "b": 2.5}
    assert len(first) == 2
    assert "a" in first
    assert list(first) == ["a", "b"]
    assert first.__wrapped__ is second.__wrapped__  # type: ignore[attr-defined]


def test_calls_attributes_and_arrays_are_forwarded(tmp_path: Path) -> None:
    np.save(tmp_path / "numbers.npy", np.arange(4.0))
    numbers = loaded(np.load, tmp_path / "numbers.npy")
    assert numbers.sum() == 6.0
    assert np.sqrt(np.asarray(numbers)).tolist() == np.sqrt(np.arange(4.0)).tolist()
    (tmp_path / "power").write_text("3")
    power = loaded(power_of, tmp_path / "power")
    assert power(2) == 8


def power_of(path: str) -> Any:
    exponent = int(Path(path).read_text())
    return lambda base: base**exponent


def test_copying_and_pickling_load_nothing(table: Path) -> None:
    one = loaded(table_of, table)
    again = pickle.loads(cloudpickle.dumps(copy.deepcopy(one)))
    assert CALLS == []
    assert repr(again) == f"branchline.loaded(table_of, '{table}')"
    assert again["b"] == 2.5


def test_its_content_goes_where_the_file_is_not(table: Path) -> None:
    sent = cloudpickle.dumps(loaded(table_of, table))
    table.unlink()
    there = pickle.loads(sent)
    assert there["a"] == 1.0
    assert [Path(one).name for one in CALLS] == ["table.json"]
    assert [str(table)] != CALLS


def test_another_file_in_its_place_is_not_used(table: Path) -> None:
    sent = cloudpickle.dumps(loaded(table_of, table))
    table.write_text('{"a": 99.0}')
    assert pickle.loads(sent)["a"] == 1.0
    one = loaded(table_of, table)
    table.write_text('{"a": 100.0}')
    with pytest.raises(BadFileError, match=r"table\.json has changed since the wagon was created"):
        cloudpickle.dumps(one)
    with pytest.raises(BadFileError, match=r"has changed since the wagon was created"):
        one["a"]


def test_a_large_file_must_be_there(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_files, "LOADED_FILE_SENT_MAX_BYTES", 10)
    sent = cloudpickle.dumps(loaded(table_of, table))
    assert pickle.loads(sent)["a"] == 1.0
    loaded_files._objects.clear()
    table.unlink()
    with pytest.raises(BadFileError, match=r"table\.json does not exist here.*files of more than 10 B are not sent"):
        pickle.loads(sent)["a"]


def test_the_key_depends_on_the_content_and_the_arguments_but_not_on_the_place(table: Path, tmp_path: Path) -> None:
    key = key_of(loaded(table_of, table))
    moved = tmp_path / "other.json"
    moved.write_text(table.read_text())
    assert key_of(loaded(table_of, moved)) == key
    assert key_of(pickle.loads(cloudpickle.dumps(loaded(table_of, table)))) == key
    others = {key_of(loaded(table_of, table, 2.0)), key_of(loaded(json_of, table))}
    table.write_text('{"a": 1.0, "b": 2.6}')
    others.add(key_of(loaded(table_of, table)))
    assert len(others | {key}) == 4
    assert CALLS == []


def json_of(path: str) -> Any:
    return json.loads(Path(path).read_text())


def test_what_cannot_be_loaded_is_refused_at_once(table: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match=r"none\.json does not exist"):
        loaded(table_of, tmp_path / "none.json")
    with pytest.raises(OptionError, match="cannot be called"):
        loaded("table_of", table)  # type: ignore[arg-type]


def test_files_that_load_others_beside_them_are_told_apart(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "model.json").write_text("{}")
        (tmp_path / str(number) / "weights").write_text(str(number))
    models = [loaded(weights_beside, tmp_path / str(number) / "model.json") for number in (1, 2)]
    assert [one["w"] for one in models] == ["1", "2"]


def weights_beside(path: str) -> dict[str, str]:
    return {"w": Path(path).with_name("weights").read_text()}


def test_a_loader_may_use_loaded_files_in_its_threads(table: Path, tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")

    def both(_path: str) -> list[float]:
        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(lambda _: loaded(table_of, table)["a"], range(2)))

    assert list(loaded(both, tmp_path / "other.json")) == [1.0, 1.0]
    assert len(CALLS) == 1


def test_errors_of_loaders_are_seen(table: Path) -> None:
    def wrong(_path: str) -> object:
        return None.foo  # type: ignore[attr-defined]

    for use in (lambda one: one["a"], lambda one: one.items, lambda one: one.__wrapped__):
        with pytest.raises(AttributeError, match="'NoneType' object has no attribute 'foo'"):
            use(loaded(wrong, table))


def test_names_of_the_loaded_object_are_not_hidden(table: Path) -> None:
    path = loaded(Path, table)
    assert path.parts == table.parts
    assert path.suffix == ".json"


def test_a_loader_that_cannot_be_pickled_loads_for_itself(table: Path) -> None:
    lock = threading.Lock()

    def with_lock(path: str) -> dict[str, float]:
        with lock:
            return table_of(path)

    one = loaded(with_lock, table)
    assert (one["a"], one["b"]) == (1.0, 2.5)
    assert len(CALLS) == 1


def test_a_copy_that_was_sent_is_removed_after_it_was_loaded(table: Path) -> None:
    sent = cloudpickle.dumps(loaded(table_of, table))
    table.unlink()
    assert pickle.loads(sent)["a"] == 1.0
    assert not Path(CALLS[0]).parent.exists()


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/dev/zero", "is not a regular file"),
        ("/tmp", "is not a regular file"),
        ("{table}/x", "cannot be read: Not a directory"),
        ("a\0b", "cannot be read: embedded null byte"),
        ("a" * 300, "cannot be read: File name too long"),
        ("https://example.org/a.json", "is a URL"),
    ],
)
def test_what_is_no_file_is_refused(path: str, problem: str, table: Path) -> None:
    with pytest.raises((StorageError, OptionError), match=problem):
        loaded(table_of, path.format(table=table))


WAGON = """
import correctionlib
import numpy as np
import branchline

class Weighted:
    branches = ["pt"]
    def __init__(self):
        self.factors = branchline.loaded(correctionlib.CorrectionSet.from_file, "factors.json")
    def process(self, events):
        return float(np.sum(self.factors["scale"].evaluate(np.asarray(events.pt))))
"""
FACTORS = {
    "schema_version": 2,
    "corrections": [
        {
            "name": "scale",
            "version": 1,
            "inputs": [{"name": "pt", "type": "real"}],
            "output": {"name": "w", "type": "real"},
            "data": {
                "nodetype": "binning",
                "input": "pt",
                "edges": [0.0, 50.0, 100.0],
                "content": [1.5, 2.0],
                "flow": "clamp",
            },
        }
    ],
}


def test_results_with_corrections_are_reused_until_the_file_changes(tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text(WAGON)
    factors = tmp_path / "factors.json"
    factors.write_text(json.dumps(FACTORS))
    for number in range(3):
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            file["events"] = {"pt": np.linspace(0, 99, 100)}

    def run() -> tuple[float, int]:
        program = (
            "import branchline\n"
            "done = branchline.run('wagons.py', ['0.root', '1.root', '2.root'], 'out', workers=2, force=True)\n"
            "print(done.outputs['Weighted'], done.record.subjobs_reused)"
        )
        said = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
        total, reused = said.stdout.split()[-2:]
        return float(total), int(reused)

    assert run() == (3 * (50 * 1.5 + 50 * 2.0), 0)
    total, reused = run()
    assert (total, reused > 0) == (525.0, True)
    factors.write_text(json.dumps(FACTORS).replace("1.5, 2.0", "1.0, 1.0"))
    assert run() == (300.0, 0)


LOADERS = """
import json
from pathlib import Path
import numpy as np
import branchline

def read(path):
    with open(path) as file:
        return json.load(file)

def as_path(path, factor=1):
    return json.loads(Path(path).read_text()) * factor

def beside(path):
    return Path(path).with_name("weights").read_text()

def changed(path):
    path = path + ".npy"
    return np.load(path)

def direct(path):
    return np.load(path)

class Wagon:
    def __init__(self):
        self.table = branchline.loaded(LOADER, "table.json")
    def process(self, events):
        return 1

class Direct(Wagon):
    def process(self, events):
        return direct(events.name)
"""


@pytest.mark.parametrize(
    ("loader", "wagon", "problem"),
    [
        ("read", "Wagon", ""),
        ("as_path", "Wagon", ""),
        (
            "beside",
            "Wagon",
            "reads a file with read_text(), but the file name is not in the source: use branchline.loaded",
        ),
        ("changed", "Wagon", "reads a file with load(), but the file name is not in the source"),
        ("direct", "Wagon", ""),
        ("direct", "Direct", "reads a file with load(), but the file name is not in the source"),
    ],
)
def test_a_loader_of_the_user_may_read_the_file_that_it_gets(
    loader: str, wagon: str, problem: str, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(table.parent)
    path = table.with_name(f"{loader}_{wagon}.py")
    path.write_text(LOADERS.replace("LOADER", loader))
    wagons, _ = load_wagons(f"{path}:{wagon}")
    found = WagonKeys(wagons)[wagon]
    assert problem in found.unknown
    assert (found.key is None) == bool(problem)


def test_what_cannot_be_known_names_the_remedy(table: Path) -> None:
    for value in (threading.Lock(), iter([1])):
        with pytest.raises(
            UnknownValueError, match=r"content is unknown: load it with branchline.loaded\(LOADER, FILE\)"
        ):
            key_of(value)


def test_a_wagon_that_cannot_be_sent_names_its_attribute_and_the_remedy(table: Path) -> None:
    class Session:
        def __init__(self) -> None:
            self.session = {"lock": threading.Lock()}

        def process(self, _events: Any) -> int:
            return 1

    error = pickling_error(Wagon(Session()))
    assert error is not None
    assert "Session.session['lock'] is a _thread.lock, which cannot be pickled" in str(error)
    assert "load it with branchline.loaded(LOADER, FILE)" in str(error)
