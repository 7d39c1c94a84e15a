"""Keys of results: what a result depends on changes its key, nothing else does, and what cannot be known has none."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from branchline.reading.datasets.data_file import Companion, DataFile
from branchline.trains.reuse.canonical import Canonical, UnknownValueError
from branchline.trains.reuse.result_keys import ShareKeys
from branchline.trains.subjobs.shares import Share

WAGONS = '''"""Wagons."""
import json
import logging
from dataclasses import dataclass
from pathlib import Path

import awkward as ak
import hist
import numpy as np

import selection
from corrections.scale import scaled

log = logging.getLogger(__name__)
PT_MIN = 30.0
ETA_MAX = 2.4
BINS = hist.axis.Regular(10, 0, 100, name="pt")
NAMES = {"one", "two", "three", "four"}
EDGES = np.array([1.0, 2.0, 4.0])
SETTINGS = json.loads(Path("settings.json").read_text())


def passing(events):
    """Says what passes."""
    return events.pt > PT_MIN


class Spectrum:
    """A spectrum."""

    branches = ["pt"]

    def __init__(self, cut=3, names=("a", "b")):
        self.cut = cut
        self.names = set(names)

    def process(self, events):
        """Fills."""
        log.info("filling")
        return hist.Hist(BINS).fill(ak.flatten(events.pt[passing(events)] > self.cut))


@dataclass
class Etas:
    limit: float = 1.0

    def process(self, events):
        return float(ak.sum(abs(events.eta) < ETA_MAX)), sorted(NAMES), EDGES[1]


class Chosen:
    def process(self, events):
        return selection.chosen(events), SETTINGS["cut"]


class Scaled(Chosen):
    def process(self, events):
        return scaled(events.pt)


class Follower:
    requires = ("etas",)

    def process(self, events):
        return events.outputs["etas"]


spectrum, etas, chosen, rescaled, follower = Spectrum(), Etas(), Chosen(), Scaled(), Follower()
wagons = [spectrum, etas, chosen]
wagons += [rescaled, follower]
for one, name in zip(wagons, ["spectrum", "etas", "chosen", "rescaled", "follower"]):
    one.name = name
'''
FILES = {
    "wagons.py": WAGONS,
    "settings.json": '{"cut": 5}',
    "selection.py": "LIMIT = 7\n\n\ndef chosen(events):\n    return events.x > LIMIT\n",
    "corrections/__init__.py": "",
    "corrections/scale.py": "from . import factors\n\n\ndef scaled(pt):\n    return pt * factors.FACTOR\n",
    "corrections/factors.py": "FACTOR = 1.01\n",
}
ALL = {"spectrum", "etas", "chosen", "rescaled", "follower"}
DRIVER = """
import json, os, sys
import hist  # by all wagons, each in a process of its own
from branchline.trains.reuse.result_keys import WagonKeys
from branchline.trains.wagons.wagons import load_wagons
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        sys.path.insert(0, folder)
        wagons, _ = load_wagons("wagons.py")
        keys = WagonKeys(wagons)
        found = {one.name: [keys[one.name].key, keys[one.name].unknown] for one in wagons}
        with open("keys.json", "w") as file:
            json.dump(found, file)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def keys_in(folders: list[Path], hash_seed: int = 0, **variables: str) -> list[dict[str, list[str | None]]]:
    """The keys of the wagons of each folder, or why there is none, from a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    subprocess.run([sys.executable, "-c", DRIVER, *map(str, folders)], check=True, env=environment)
    return [json.loads((one / "keys.json").read_text()) for one in folders]


def write(folder: Path, edits: dict[str, tuple[str, str]]) -> Path:
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        old, new = edits.get(name, ("", ""))
        assert old in content, f"{name} has no {old!r}"
        path.write_text(content.replace(old, new) if old else content + new)
    return folder


# What is changed, and whose keys must change by it.
EDITS: dict[str, tuple[dict[str, tuple[str, str]], set[str]]] = {
    "nothing": ({}, set()),
    "a comment": ({"wagons.py": ("PT_MIN = 30.0", "PT_MIN = 30.0  # GeV\n\n# More.")}, set()),
    "a docstring": ({"wagons.py": ('"""Fills."""', '"""Fills a histogram."""')}, set()),
    "no docstring": ({"wagons.py": ('    """Says what passes."""\n', "")}, set()),
    "another layout": ({"wagons.py": ("self.cut = cut\n", "self.cut = (\n            cut\n        )\n")}, set()),
    "an import's comment": ({"selection.py": ("LIMIT = 7", "LIMIT = 7  # changed")}, set()),
    "code that nobody uses": ({"wagons.py": ("", "\n\ndef unused():\n    return 1\n")}, set()),
    "the end of a script": ({"wagons.py": ("", '\n\nif __name__ == "__main__":\n    print(1)\n')}, set()),
    "the method of one": ({"wagons.py": ("> self.cut", ">= self.cut")}, {"spectrum"}),
    "a function that one uses": ({"wagons.py": ("events.pt > PT_MIN", "events.pt >= PT_MIN")}, {"spectrum"}),
    "a global behind a function": ({"wagons.py": ("PT_MIN = 30.0", "PT_MIN = 31.0")}, {"spectrum"}),
    "an axis": ({"wagons.py": ("Regular(10", "Regular(11")}, {"spectrum"}),
    "a default": ({"wagons.py": ("cut=3", "cut=4")}, {"spectrum"}),
    "a parameter": ({"wagons.py": ("Spectrum(), Etas()", "Spectrum(cut=4), Etas()")}, {"spectrum"}),
    "a set": ({"wagons.py": ('"four"}', '"five"}')}, {"etas", "follower"}),
    "an array": ({"wagons.py": ("2.0, 4.0", "2.5, 4.0")}, {"etas", "follower"}),
    "a dataclass": ({"wagons.py": ("limit: float = 1.0", "limit: float = 2.0")}, {"etas", "follower"}),
    "what a file holds": ({"settings.json": ("5", "6")}, {"chosen", "rescaled"}),
    "a global of an import": ({"selection.py": ("LIMIT = 7", "LIMIT = 8")}, {"chosen", "rescaled"}),
    "a function of an import": ({"selection.py": ("> LIMIT", "< LIMIT")}, {"chosen", "rescaled"}),
    "an import of an import": ({"corrections/factors.py": ("1.01", "1.02")}, {"rescaled"}),
    "a base class": ({"wagons.py": ("class Chosen:", "class Chosen:\n    x = 1\n")}, {"chosen", "rescaled"}),
    "a call at the start": ({"wagons.py": ("PT_MIN = 30.0", "PT_MIN = 30.0\nnp.seterr(all='raise')")}, ALL),
    "an import of a package": ({"wagons.py": ("import hist\n", "import hist\nimport uproot\n")}, ALL),
}  # fmt: skip


def test_only_what_a_wagon_depends_on_changes_its_key(tmp_path: Path) -> None:
    folders = [write(tmp_path / str(index), edits) for index, (edits, _) in enumerate(EDITS.values())]
    first, *others = keys_in(folders)
    assert {name: unknown for name, (_, unknown) in first.items()} == dict.fromkeys(ALL, "")
    for (what, (_, expected)), found in zip(EDITS.items(), [first, *others], strict=True):
        assert {name for name in ALL if found[name] != first[name]} == expected, what


def test_keys_are_the_same_under_another_hash_seed_and_in_another_folder(tmp_path: Path) -> None:
    folders = [write(tmp_path / "here", {}), write(tmp_path / "there" / "deeper", {})]
    found = [keys for seed in (1, 2, 12345) for keys in keys_in(folders, seed)]
    assert all(keys == found[0] for keys in found)


UNKNOWN = {
    "an open file": ("self.cut = cut", "self.cut = open('settings.json')", "whose content is unknown"),
    "a lambda": ("self.cut = cut", "self.cut = lambda x: x", "is a lambda"),
    "a generator": ("self.cut = cut", "self.cut = (one for one in 'ab')", "whose content is unknown"),
    "a file by an unknown name": ("log.info(", "open(events.name)\n        log.info(", "reads a file with open()"),
    "an array by an unknown name": ("log.info(", "np.load(events.name)\n        log.info(", "reads a file with load()"),
    "files by uproot": (
        "log.info(",
        "import uproot\n        uproot.concatenate(events.name)\n        log.info(",
        "calls concatenate() of uproot",
    ),
    "a function of uproot": (
        "log.info(",
        "from uproot import iterate as parts\n        list(parts(events.name))\n        log.info(",
        "calls parts() of uproot",
    ),
    "a file of PyROOT": (
        "log.info(",
        "import ROOT\n        ROOT.TFile.Open(events.name)\n        log.info(",
        "reads a file with Open()",
    ),
    "a table in many formats": (
        "log.info(",
        "import pandas as pd\n        pd.read_excel(events.name)\n        log.info(",
        "calls read_excel() of pandas",
    ),
    "an answer of a server": (
        "log.info(",
        "import requests\n        requests.get('https://server.example/sf')\n        log.info(",
        "calls get() of requests",
    ),
    "the names in a folder": ("log.info(", "import glob\n        glob.glob('*')\n        log.info(", "uses glob()"),
    "another program": (
        "log.info(",
        "import subprocess\n        subprocess.run(['a'])\n        log.info(",
        "uses subprocess",
    ),
    "the environment": ("log.info(", "__import__('os').environ['X']\n        log.info(", "uses "),
    "evaluated code": ("log.info(", "eval('1 + 1')\n        log.info(", "uses eval"),
    "a collection in C": (
        "self.cut = cut",
        "self.cut = __import__('collections').deque([cut])",
        "is a collections.deque",
    ),
    "a generator in C": ("self.cut = cut", "self.cut = __import__('random').Random(1)", "whose content is unknown"),
    "an object of a circle": ("self.cut = cut", "self.cut = [self]", "refers to itself"),
}


def test_what_cannot_be_known_is_named_and_the_other_wagons_have_their_keys(tmp_path: Path) -> None:
    edits = [{"wagons.py": (old, new)} for old, new, _ in UNKNOWN.values()]
    folders = [write(tmp_path / str(index), one) for index, one in enumerate(edits)]
    for (what, (_, _, reason)), found in zip(UNKNOWN.items(), keys_in(folders), strict=True):
        key, unknown = found["spectrum"]
        assert key is None, what
        assert reason in (unknown or ""), what
        assert found["etas"][0] is not None


def test_a_global_of_an_import_that_comes_from_the_environment_changes_keys(tmp_path: Path) -> None:
    maximum = "import os\n\nMAXIMUM = float(os.environ.get('BRANCHLINE_TEST_LIMIT', 7))\nLIMIT = 7"
    edits = {
        "selection.py": ("LIMIT = 7", maximum),
        "wagons.py": ("selection.chosen(events)", "events.x < selection.MAXIMUM"),
    }
    folder = write(tmp_path / "one", edits)
    found = [keys_in([folder], BRANCHLINE_TEST_LIMIT=limit)[0]["chosen"] for limit in ("1", "1", "2")]
    assert all(key for key, _ in found)
    assert found[0] == found[1] != found[2]


def test_calls_of_the_same_names_that_read_nothing_keep_the_key(tmp_path: Path) -> None:
    lines = "np.concatenate([EDGES, ak.concatenate([EDGES])])\n        {}.get(events.name)\n        log.info("
    folder = write(tmp_path / "one", {"wagons.py": ("log.info(", lines)})
    key, unknown = keys_in([folder])[0]["spectrum"]
    assert key is not None, unknown


def test_a_global_of_an_import_that_comes_from_a_database_changes_keys(tmp_path: Path) -> None:
    query = "sqlite3.connect('limits' + '.db').execute('SELECT value FROM limits').fetchone()[0]"
    edits = {
        "selection.py": ("LIMIT = 7", f"import sqlite3\n\nMAXIMUM = {query}\nLIMIT = 7"),
        "wagons.py": ("selection.chosen(events)", "events.x < selection.MAXIMUM"),
    }
    folder = write(tmp_path / "one", edits)
    found = []
    for value in (1, 1, 2):
        with closing(sqlite3.connect(folder / "limits.db")) as database, database:
            database.executescript(f"DROP TABLE IF EXISTS limits; CREATE TABLE limits AS SELECT {value} AS value")
        found.append(keys_in([folder])[0]["chosen"])
    assert all(key for key, _ in found)
    assert found[0] == found[1] != found[2]


def test_a_file_that_was_opened_by_its_name_may_be_loaded(tmp_path: Path) -> None:
    lines = "with open('settings.json') as file:\n            json.load(file)\n        log.info("
    folder = write(tmp_path / "one", {"wagons.py": ("log.info(", lines)})
    assert keys_in([folder])[0]["spectrum"][0] is not None


def test_a_wagon_that_requires_an_unknown_one_is_unknown(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", {"wagons.py": ("limit: float = 1.0", "limit: object = open('settings.json')")})
    found = keys_in([folder])[0]
    assert found["follower"][0] is None
    assert "requires wagon etas" in (found["follower"][1] or "")


def test_a_compiled_module_of_no_package_is_unknown(tmp_path: Path) -> None:
    import _bisect

    # Found, and never run: that it is a module of Python itself does not matter here.
    source = getattr(_bisect, "__file__", None)
    suffix = Path(source).name.partition(".")[2] if source else "cpython-311-x86_64-linux-gnu.so"
    folder = write(tmp_path / "one", {"selection.py": ("return events.x", "import fast\n    return events.x")})
    (folder / f"fast.{suffix}").write_bytes(b"not run")
    found = keys_in([folder])[0]
    assert {name for name, (key, _) in found.items() if key is None} == {"chosen", "rescaled"}
    assert "fast is compiled" in (found["chosen"][1] or "")


def test_a_source_that_changed_after_it_was_loaded_is_unknown(tmp_path: Path) -> None:
    folder = write(tmp_path / "one", {})
    script = DRIVER.replace(
        "keys = ", "p = __import__('pathlib').Path('wagons.py'); "
        "p.write_text(p.read_text().replace('> self.cut', '< self.cut')); keys = "
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True)
    found = json.loads((folder / "keys.json").read_text())
    assert found["spectrum"][0] is None
    assert "has changed since Spectrum was loaded" in found["spectrum"][1]
    assert found["etas"][0] is not None


def test_a_class_of_an_interactive_session_is_unknown(tmp_path: Path) -> None:
    script = (
        "class Here:\n    def process(self, events):\n        return 1\n"
        "from branchline.trains.reuse.result_keys import WagonKeys\n"
        "from branchline.trains.wagons.wagons import wagons_of\n"
        "print(WagonKeys(wagons_of([Here()])[0])['Here'])"
    )
    ended = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert "Here is defined in an interactive session" in ended.stdout
    (tmp_path / "script.py").write_text(script)
    ended = subprocess.run([sys.executable, "script.py"], check=True, capture_output=True, text=True, cwd=tmp_path)
    assert "unknown=''" in ended.stdout


def digest(value: object) -> str:
    canonical = Canonical(lambda *_: None)
    canonical.add(value, "value")
    return canonical.hexdigest()


def test_values_that_differ_have_other_digests() -> None:
    values = [
        0, 0.0, -0.0, False, None, "", b"", "0", 1, 1.0, True, 1j, (), [], {}, set(), frozenset(), [()], ([],), [[]],
        "ab", ["a", "b"], ["ab"], ("a", "b"), {"a": "b"}, {"a", "b"}, np.float32(1), np.float64(1), np.int64(1),
        np.array([1]), np.array([1.0]), np.array([[1]]), np.array([1], "i4"), np.dtype("f4"), np.dtype("f8"),
        float("nan"), *(np.ma.MaskedArray([1, 2], mask) for mask in ([0, 0], [0, 1], [1, 1])),
        np.sin, np.cos, len, range(2), range(3), Path, Path("/nowhere/a"), Path("/nowhere/b"), 10**30, 1e300,
    ]  # fmt: skip
    digests = [digest(one) for one in values]
    assert len(set(digests)) == len(values)
    assert digests == [digest(one) for one in values]


class WithUnit(np.ndarray):
    """An array that holds more than its numbers."""

    unit = "GeV"


@pytest.mark.parametrize(
    "value", [np.array([object()]), np.arange(3).view(WithUnit), iter([]), (one for one in []), lambda: 1]
)
def test_values_that_cannot_be_known_are_refused(value: object) -> None:
    with pytest.raises(UnknownValueError, match="value"):
        digest(value)


FILE = DataFile("a.root", tree="events", dataset="data", metadata={"x": 1}, size_bytes=100, version="written 5 ns")
SHARE = Share((FILE,), part=1, parts=3)
CHANGES: dict[str, Callable[[], tuple[Share, int]]] = {
    "path": lambda: (replace(SHARE, files=(replace(FILE, path="b.root"),)), 10),
    "size": lambda: (replace(SHARE, files=(replace(FILE, size_bytes=101),)), 10),
    "time": lambda: (replace(SHARE, files=(replace(FILE, version="written 6 ns"),)), 10),
    "tree": lambda: (replace(SHARE, files=(replace(FILE, tree="other"),)), 10),
    "dataset": lambda: (replace(SHARE, files=(replace(FILE, dataset="simulation"),)), 10),
    "metadata": lambda: (replace(SHARE, files=(replace(FILE, metadata={"x": 2}),)), 10),
    "entries": lambda: (replace(SHARE, files=(replace(FILE, entry_start=1),)), 10),
    "last entry": lambda: (replace(SHARE, files=(replace(FILE, entry_stop=1),)), 10),
    "companion": lambda: (replace(SHARE, files=(replace(FILE, companions=(Companion("K", "K.root"),)),)), 10),
    "another file": lambda: (replace(SHARE, files=(FILE, replace(FILE, path="b.root"))), 10),
    "part": lambda: (replace(SHARE, part=2), 10),
    "parts": lambda: (replace(SHARE, parts=4), 10),
    "first chunk": lambda: (replace(SHARE, learn=True), 10),
    "chunks of given length": lambda: (replace(SHARE, chunk_entries=10), 10),
    "step": lambda: (SHARE, 11),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_is_read_changes_the_key_of_a_share(what: str) -> None:
    assert ShareKeys(None).key_of(*CHANGES[what]()) != ShareKeys(None).key_of(SHARE, 10)


def test_how_it_is_read_changes_the_key_of_a_share_only_where_files_are_skipped() -> None:
    other = replace(SHARE, branches=("px",), together=4, stopped=frozenset({"a"}), known_branches=("py",))
    assert ShareKeys(None).key_of(other, 10) == ShareKeys(None).key_of(SHARE, 10)
    assert ShareKeys(["px"]).key_of(SHARE, 10) != ShareKeys(["py"]).key_of(SHARE, 10)
    assert ShareKeys(["px"]).key_of(SHARE, 10) != ShareKeys(None).key_of(SHARE, 10)


def test_a_companion_that_was_written_again_changes_the_key(tmp_path: Path) -> None:
    (tmp_path / "K.root").write_bytes(b"one")
    file = replace(FILE, path=str(tmp_path / "a.root"), companions=(Companion("K", "K.root"),))
    share = Share((file,))
    before = ShareKeys(None).key_of(share, 10)
    assert ShareKeys(None).key_of(share, 10) == before
    (tmp_path / "K.root").write_bytes(b"another")
    assert ShareKeys(None).key_of(share, 10) != before


def test_a_file_of_unknown_time_has_no_key() -> None:
    unknown = replace(FILE, version="", no_version="its server is silent")
    with pytest.raises(UnknownValueError, match=r"a\.root.*version: its server is silent"):
        ShareKeys(None).key_of(replace(SHARE, files=(unknown,)), 10)


def test_a_checksum_replaces_the_size_and_the_time_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a.root").write_bytes(b"one")
    summed = replace(FILE, path=str(tmp_path / "a.root"), version="adler32:0a1b2c3d")

    def key(file: DataFile) -> str:
        return ShareKeys(None).key_of(Share((file,)), 10)

    before = key(summed)
    (tmp_path / "a.root").write_bytes(b"another")
    assert key(summed) == key(replace(summed, size_bytes=None)) == before
    assert key(replace(summed, version="adler32:0a1b2c3e")) != before


def test_what_an_object_keeps_in_private_slots_changes_its_digest() -> None:
    assert len({_digest_of(Kept(value)) for value in (1.0, 1.0, 2.0)}) == 2


def _digest_of(value: object) -> str:
    canonical = Canonical(lambda *_: None)
    canonical.add(value, "value")
    return canonical.hexdigest()


class Kept:
    """Has no ``__dict__``."""

    __slots__ = ("__value",)

    def __init__(self, value: float) -> None:
        self.__value = value

    def doubled(self) -> float:
        return 2 * self.__value
