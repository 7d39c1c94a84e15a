"""One finder of the user's modules: what travels to workers, what a submitted train keeps and what keys of results
depend on agree.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from branchline.errors import WagonError
from branchline.trains.reuse import module_finder
from branchline.trains.reuse.result_keys import WagonKeys
from branchline.trains.reuse.stored_train import StoredSources, sources_of
from branchline.trains.wagons.wagons import Wagon, load_wagons

PROCESS = """

class Counts:
    name = "counts"

    def process(self, events):
        {body}
        return len(events)
"""


@dataclass
class Folders:
    """The user's folder of wagons, and another one of ``sys.path``."""

    own: Path
    other: Path

    def wagons(self, head: str = "", body: str = "pass") -> str:
        path = self.own / "finder_wagons.py"
        path.write_text(head + PROCESS.format(body=body))
        return str(path)


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Folders:
    own, other = tmp_path / "own", tmp_path / "other"
    for one in (own, other):
        one.mkdir()
        monkeypatch.syspath_prepend(str(one))
    for module in list(sys.modules):
        if module.startswith("finder_"):
            monkeypatch.delitem(sys.modules, module)
    return Folders(own, other)


def shipped(wagons: str) -> set[str]:
    return {one.path for one in sources_of(*load_wagons(wagons))}


def stored(wagons: str) -> set[str]:
    return {one.name for one in StoredSources.of(*load_wagons(wagons)).modules}


def key(wagons: str) -> str | None:
    return WagonKeys(load_wagons(wagons)[0])["counts"].key


def test_a_submitted_train_keeps_modules_of_other_folders_and_those_imported_late(folders: Folders) -> None:
    (folders.other / "finder_cuts.py").write_text("import finder_deep\nLARGEST = 2.5\n")
    (folders.other / "finder_deep.py").write_text("")
    (folders.own / "finder_late.py").write_text("FACTOR = 2\n")
    wagons = folders.wagons("import finder_cuts\n", "import finder_late")
    assert stored(wagons) == {"branchline_wagons_finder_wagons", "finder_cuts", "finder_deep", "finder_late"}
    assert shipped(wagons) == {"finder_wagons.py", "finder_cuts.py", "finder_deep.py", "finder_late.py"}


def test_what_is_loaded_by_a_computed_name_travels(folders: Folders) -> None:
    (folders.own / "finder_plugin.py").write_text("")
    wagons = folders.wagons("import importlib\nplugin = importlib.import_module('finder_' + 'plugin')\n")
    assert shipped(wagons) == {"finder_wagons.py", "finder_plugin.py"}
    assert "finder_plugin" in stored(wagons)


def test_modules_of_what_a_wagon_holds_travel(folders: Folders) -> None:
    (folders.other / "finder_weights.py").write_text("class Weights:\n    pass\n\n\ndef flat(): ...\n")
    (folders.other / "finder_class.py").write_text(PROCESS.format(body="pass"))
    weights, classes = importlib.import_module("finder_weights"), importlib.import_module("finder_class")
    for held in (weights.Weights(), weights.flat, weights):
        thing = classes.Counts()
        thing.weights = [held]
        assert {one.path for one in sources_of([Wagon(thing)], [])} == {"finder_class.py", "finder_weights.py"}


def test_modules_of_a_script_and_of_a_notebook_travel(folders: Folders) -> None:
    (folders.other / "finder_cuts.py").write_text("LARGEST = 2.5\n")
    (folders.other / "finder_late.py").write_text("")
    (folders.other / "finder_pack").mkdir()
    (folders.other / "finder_pack" / "inner.py").write_text("")
    source = "import finder_cuts\n" + PROCESS.format(
        body="import finder_late\n        from finder_pack import inner\n        finder_cuts.LARGEST"
    )
    source += (
        "\nfrom branchline.trains.reuse.stored_train import sources_of\n"
        "from branchline.trains.wagons.wagons import Wagon\n"
        "print(*(one.path for one in sources_of([Wagon(Counts())], [])))\n"
    )
    run = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folders.other)!r})\n{source}"]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["finder_cuts.py", "finder_late.py", "finder_pack/inner.py"], done.stderr


def test_a_module_with_a_name_of_the_standard_library_travels(folders: Folders) -> None:
    # Nothing here has loaded this one, so the folder of the user comes first, as it does for a script.
    assert "this" not in sys.modules
    (folders.own / "this.py").write_text("LARGEST = 2.5\n")
    wagons = folders.wagons(body="import this")
    assert "this.py" in shipped(wagons)
    assert "this" in stored(wagons)
    before = key(wagons)
    (folders.own / "this.py").write_text("LARGEST = 3.5\n")
    assert before is not None
    assert key(wagons) != before


def test_finding_runs_no_code_of_the_user(folders: Folders) -> None:
    (folders.own / "finder_pack").mkdir()
    (folders.own / "finder_pack" / "__init__.py").write_text("raise RuntimeError('only for workers')\n")
    (folders.own / "finder_pack" / "inner.py").write_text("")
    wagons = folders.wagons(body="import finder_pack.inner")
    both = {"finder_pack/__init__.py", "finder_pack/inner.py"}
    assert shipped(wagons) == {"finder_wagons.py", *both}


def test_a_file_that_does_not_parse_travels(folders: Folders) -> None:
    (folders.own / "finder_broken.py").write_text("def half(:\n")
    assert "finder_broken.py" in shipped(folders.wagons(body="import finder_broken"))


def test_packages_below_a_path_of_the_environment_are_installed(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a view of software on CVMFS."""
    # The view is older than a process that uses it.
    monkeypatch.setattr("branchline.jobs.package_versions._process_began_s", lambda: time.time() + 1)
    view = tmp_path / "view" / "site-packages"
    (view / "finder_view-1.2.dist-info").mkdir(parents=True)
    (view / "finder_view-1.2.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: finder_view\n")
    with open(view / "finder_view-1.2.dist-info" / "METADATA", "a") as out:
        out.write("Version: 1.2\n")
    # Code that has no key of its own: a package is known by its version.
    (view / "finder_view.py").write_text("exec('')\n")
    (view / "finder_alone.py").write_text("")
    sys.path.insert(0, str(view))
    try:
        wagons = folders.wagons("import finder_view\n", "import finder_alone")
        assert shipped(wagons) == {"finder_wagons.py", "finder_alone.py"}
        assert stored(wagons) == {"branchline_wagons_finder_wagons", "finder_alone"}
        assert key(wagons) is not None
    finally:
        sys.path.remove(str(view))


def test_what_is_found_by_a_finder_of_its_own_counts(folders: Folders, tmp_path: Path) -> None:
    """As in a package that is installed to be edited."""
    edited = tmp_path / "edited"
    edited.mkdir()
    (edited / "finder_edited.py").write_text("FACTOR = 2\n")

    class Finder:
        @staticmethod
        def find_spec(name: str, path: object = None, target: object = None) -> object:
            file = edited / f"{name}.py"
            return importlib.util.spec_from_file_location(name, file) if file.is_file() else None

    finder = Finder()
    sys.meta_path.append(finder)  # type: ignore[arg-type]
    try:
        wagons = folders.wagons(body="import finder_edited")
        assert "finder_edited.py" in shipped(wagons)
        before = key(wagons)
        (edited / "finder_edited.py").write_text("FACTOR = 3\n")
        assert before is not None
        assert key(wagons) != before
    finally:
        sys.meta_path.remove(finder)  # type: ignore[arg-type]


def test_two_files_that_workers_would_import_as_one_are_refused(folders: Folders) -> None:
    wagons = folders.wagons(body="import finder_wagons")
    (folders.other / "finder_wagons.py").write_text("")
    with pytest.raises(WagonError, match="as the same module"):
        shipped(wagons)
    assert stored(wagons) == {"branchline_wagons_finder_wagons", "finder_wagons"}


def test_what_is_compiled_or_installed_does_not_travel(folders: Folders) -> None:
    (folders.own / "finder_fast.so").write_bytes(b"")
    assert shipped(folders.wagons(body="import finder_fast, zlib, math, numpy")) == {"finder_wagons.py"}


def test_folders_without_init_are_packages() -> None:
    assert module_finder.find_module("branchline_of_nobody") is None
    found = module_finder.find_module("json.decoder")
    assert found is not None
    assert found.installed_version == "python"


def test_a_name_that_several_files_import_is_looked_up_once(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("finder_first", "finder_second"):
        (folders.own / f"{name}.py").write_text("import json\nimport finder_absent\nfrom finder_third import value\n")
    (folders.own / "finder_third.py").write_text("import json\nvalue = 1\n")
    looked_up: list[str] = []
    find = module_finder.find_module

    def counted(name: str) -> module_finder.FoundModule | None:
        looked_up.append(name)
        return find(name)

    monkeypatch.setattr(module_finder, "find_module", counted)
    found = stored(folders.wagons(body="import finder_first, finder_second"))
    assert found >= {"finder_first", "finder_second", "finder_third"}
    assert {"json", "finder_absent"} <= set(looked_up)
    assert len(looked_up) == len(set(looked_up))
