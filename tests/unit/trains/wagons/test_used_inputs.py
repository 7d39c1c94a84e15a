"""Results are kept only under keys that describe what was really used."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.conftest import REPOSITORY
from tests.unit.trains.wagons.conftest import run_in_chunks

from branchline.jobs.ledger import LEDGER_NAME
from branchline.jobs.package_versions import INTERPRETER, MISSING, VersionCheck, is_new_to_process, version_text
from branchline.reading.datasets.identity import content_identity
from branchline.trains.running.result import TrainResult
from branchline.trains.subjobs.used_inputs import identities_of, unchanged

OLD_NS = 1_700_000_000_123_456_789
WAGON = """
import helperofthistest
import packageofthistest


class N:
    name = "n"

    def process(self, events):
        return helperofthistest.SHIFT + packageofthistest.SCALE * int(events.x.to_numpy().sum())
"""


def write(path: Path, seed: int) -> None:
    with uproot.recreate(path, compression=None) as file:
        file.mktree("events", {"x": "int64"}).extend({"x": np.random.default_rng(seed).integers(0, 99, 50)})
    os.utime(path, ns=(OLD_NS, OLD_NS))


def install(folder: Path, version: int) -> None:
    """Installs the package of this version, as pip does."""
    for one in folder.glob("packageofthistest*"):
        shutil.rmtree(one)
    (folder / "packageofthistest").mkdir(parents=True)
    (folder / "packageofthistest" / "__init__.py").write_text(f"SCALE = {version}\n")
    info = folder / f"packageofthistest-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: packageofthistest\nVersion: {version}\n")


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., TrainResult]]:
    """Runs a train of which each run imports its modules anew, as another process does."""
    packages = tmp_path / "view" / "site-packages"
    install(packages, 1)
    (tmp_path / "helperofthistest.py").write_text("SHIFT = 1\n")
    (tmp_path / "wagons.py").write_text(WAGON)
    (tmp_path / "data").mkdir()
    for number in (0, 1):
        write(tmp_path / "data" / f"f{number}.root", number)
    (tmp_path / "pool").mkdir()
    write(tmp_path / "pool" / "f0.root", 7)
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 16_000)
    # In place of new processes, which the packages of a test would be older than.
    monkeypatch.setattr("branchline.jobs.package_versions._process_began_s", lambda: time.time() + 1)
    monkeypatch.setattr(sys, "path", [str(packages), str(tmp_path), *sys.path])

    def forget() -> None:
        from branchline.jobs import package_versions
        from branchline.trains.reuse import module_finder

        for name in ("helperofthistest", "packageofthistest"):
            sys.modules.pop(name, None)
        package_versions.version_of.cache_clear()
        module_finder._real_path.cache_clear()

    def run(**settings: Any) -> TrainResult:
        forget()
        path = tmp_path / LEDGER_NAME if settings.pop("keeps", True) else None
        return run_in_chunks(str(tmp_path / "wagons.py"), str(tmp_path / "data"), ledger=path, **settings)

    yield run
    forget()


def test_a_second_run_takes_all(train: Callable[..., TrainResult]) -> None:
    first = train(workers=1)
    assert first.record.reuse_notes == []
    second = train(workers=0)
    assert second.record.subjobs_reused == second.record.subjobs == 2
    assert dict(second.outputs) == dict(first.outputs)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_workers_import_from_an_edited_module_is_not_kept(
    train: Callable[..., TrainResult], tmp_path: Path, workers: int
) -> None:
    helper = tmp_path / "helperofthistest.py"
    os.utime(helper, ns=(OLD_NS, OLD_NS))

    def edit(_: object) -> None:
        helper.write_text("SHIFT = 9\n")
        os.utime(helper, ns=(OLD_NS, OLD_NS))

    begun: list[bool] = []

    def reads_edited(_: object, _sums: object) -> None:
        # The key is made by now, and the worker has not imported the module.
        begun.append(True)
        edit(_)

    train(workers=workers, begin=reads_edited)
    assert begun
    helper.write_text("SHIFT = 1\n")
    os.utime(helper, ns=(OLD_NS, OLD_NS))
    assert train(workers=0).outputs["n"] == train(workers=0, keeps=False).outputs["n"]


def test_a_worker_with_another_package_than_the_plan_refuses_the_train(
    train: Callable[..., TrainResult], tmp_path: Path
) -> None:
    right = train(workers=0, keeps=False).outputs["n"]
    packages = tmp_path / "view" / "site-packages"
    result = train(workers=1, progress=_once(lambda: install(packages, 2)))
    [error] = result.record.errors
    assert "packageofthistest 2 (planned: 1)" in error.message
    assert error.type == "OtherVersionsError"
    assert (result.record.skipped, result.record.missing, result.record.events) == ([], [], 0)
    assert [one.error for one in result.record.wagons] == [None]
    install(packages, 1)
    again = train(workers=1)
    assert again.record.subjobs_reused == 0
    assert again.outputs["n"] == right


def test_results_of_a_process_in_which_a_package_was_upgraded_are_not_kept(
    train: Callable[..., TrainResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "view" / "site-packages"
    upgrade = _once(lambda: install(packages, 2))
    monkeypatch.setattr(sys, "when_read_by_this_test", upgrade, raising=False)
    wagons = tmp_path / "wagons.py"
    wagons.write_text(
        "import sys\n" + WAGON.replace("        return", "        sys.when_read_by_this_test(None)\n        return")
    )
    result = train(workers=0)
    [note] = result.record.reuse_notes
    assert "packageofthistest is 2 there, but 1 where the train was planned" in note
    install(packages, 1)
    assert train(workers=0).record.subjobs_reused == 0


def _once(call: Callable[[], object]) -> Callable[[object], None]:
    done: list[object] = []

    def once(_: object) -> None:
        if not done:
            done.append(call())

    return once


@pytest.mark.parametrize("how", ["in place", "renamed", "and back", "truncated"])
def test_a_file_that_changes_while_it_is_read_is_not_kept_and_named(
    train: Callable[..., TrainResult], tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "data" / "f0.root", tmp_path / "pool" / "f0.root"
    before = path.read_bytes()
    assert len(before) == other.stat().st_size

    def change() -> None:
        if how == "truncated":
            os.truncate(path, 1000)
            return
        if how == "renamed":
            shutil.copy2(other, tmp_path / "beside")
            (tmp_path / "beside").replace(path)
            return
        for content in (other.read_bytes(), before)[: 2 if how == "and back" else 1]:
            with path.open("r+b") as file:
                file.write(content)
            os.utime(path, ns=(OLD_NS, OLD_NS))

    # The wagon itself does it, when the file is open: another process may do so at any time.
    monkeypatch.setattr(sys, "when_read_by_this_test", _once(change), raising=False)
    (tmp_path / "wagons.py").write_text(
        "import sys\n\n\nclass N:\n    name = 'n'\n\n    def process(self, events):\n"
        "        sys.when_read_by_this_test(None)\n        return int(events.x.to_numpy().sum())\n"
    )
    result = train(workers=0)
    assert any(f"{path}: it was " in one for one in result.record.reuse_notes), result.record.reuse_notes
    if how == "truncated":
        path.write_bytes(before)
        os.utime(path, ns=(OLD_NS, OLD_NS))
    again = train(workers=0)
    assert again.record.subjobs_reused == 1
    assert again.outputs["n"] == train(workers=0, keeps=False).outputs["n"]


@pytest.mark.parametrize("of", ["file", "folder"])
def test_a_link_that_leads_to_another_file_only_while_it_is_opened_is_noticed(
    train: Callable[..., TrainResult], tmp_path: Path, of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that the path names has the same identity before and after."""
    link, first, other = tmp_path / "data", tmp_path / "first", tmp_path / "pool"
    link.rename(first)
    if of == "file":
        (first / "f0.root").rename(tmp_path / "f0.root")
        link, first, other = first / "f0.root", tmp_path / "f0.root", other / "f0.root"
        (tmp_path / "data").symlink_to(tmp_path / "first")
    else:
        shutil.copy2(first / "f1.root", other)
    link.symlink_to(first)

    def lead_to(target: Path) -> None:
        link.unlink()
        link.symlink_to(target)

    right = train(workers=0, keeps=False).outputs["n"]
    flip = _once(lambda: lead_to(other))

    def identities_then_flip(files: Any) -> dict[str, str]:
        found = identities_of(files)
        flip(None)
        return found

    monkeypatch.setattr("branchline.trains.worker.train_worker.identities_of", identities_then_flip)
    back = _once(lambda: lead_to(first))
    monkeypatch.setattr(sys, "when_read_by_this_test", back, raising=False)
    wagons = tmp_path / "wagons.py"
    wagons.write_text(
        "import sys\n" + WAGON.replace("        return", "        sys.when_read_by_this_test(None)\n        return")
    )
    wrong = train(workers=0)
    assert wrong.outputs["n"] != right
    assert any("f0.root: it was" in one for one in wrong.record.reuse_notes), wrong.record.reuse_notes
    again = train(workers=0)
    assert again.outputs["n"] == right
    assert again.record.subjobs_reused < 2


def test_a_file_that_is_replaced_between_planning_and_reading_has_its_own_key(
    train: Callable[..., TrainResult], tmp_path: Path
) -> None:
    path, other = tmp_path / "data" / "f0.root", tmp_path / "pool" / "f0.root"
    shutil.copy2(path, tmp_path / "kept")
    train(workers=0, begin=lambda *_: shutil.copy2(other, path))
    # With the content that was read the result is right.
    assert train(workers=0).outputs["n"] == train(workers=0, keeps=False).outputs["n"]
    shutil.copy2(tmp_path / "kept", path)
    restored = train(workers=0)
    assert restored.record.subjobs_reused == 1
    assert restored.outputs["n"] == train(workers=0, keeps=False).outputs["n"]


def edit_in_place(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(200)
        file.write(b"x")
    os.utime(path, ns=(OLD_NS, OLD_NS))


def replace(path: Path) -> None:
    shutil.copy2(path, path.with_name("new"))
    path.with_name("new").replace(path)


def link(path: Path) -> None:
    shutil.copy2(path, path.with_name("target"))
    path.unlink()
    path.symlink_to(path.with_name("target"))


@pytest.mark.parametrize("change", [edit_in_place, replace, link, os.utime, lambda path: path.write_bytes(b"other")])
def test_the_identity_of_a_file_changes_with_it(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = tmp_path / "f.root"
    write(path, 1)
    before = content_identity(str(path))
    assert before == content_identity(str(path))
    change(path)
    assert content_identity(str(path)) != before


def test_what_is_no_local_file_has_no_identity(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none", tmp_path / "pipe", "https://server/f.root", "root://server//f.root"):
        assert content_identity(str(path)) == ""


def test_the_identity_of_what_changed_meanwhile_is_that_of_no_file() -> None:
    assert unchanged({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "9"}) == {
        "a": "1",
        "b": "2, and other content at the end",
        "c": "3, and other content at the end",
    }


def test_versions_that_differ_at_any_check_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, 1)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    planned = {name: version_text(name) for name in (INTERPRETER, "numpy", "packageofthistest", "nosuchpackage")}
    assert planned["packageofthistest"] == "1"
    assert planned["nosuchpackage"] == MISSING
    check = VersionCheck(planned)
    assert check.differences() == {}
    install(tmp_path, 2)
    assert check.differences() == {"packageofthistest": "2"}
    install(tmp_path, 1)
    assert check.differences() == {"packageofthistest": "2"}
    assert VersionCheck(planned | {INTERPRETER: "PyPy 1.0", "numpy": "1"}).differences() == {
        INTERPRETER: version_text(INTERPRETER),
        "numpy": version_text("numpy"),
    }


def test_installed_packages_are_searched_again_only_after_a_folder_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = []
    monkeypatch.setattr("importlib.metadata.packages_distributions", lambda: searches.append(1) or {})
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for _ in range(3):
        assert VersionCheck({"moduleofthistest": MISSING}).differences() == {}
    assert len(searches) == 1
    (tmp_path / "new").mkdir()
    VersionCheck({"moduleofthistest": MISSING}).differences()
    assert len(searches) == 2
    # Modules of Python itself are of no package.
    assert not is_new_to_process("json")
    assert len(searches) == 2


def test_a_package_that_was_upgraded_after_its_import_has_no_known_version(tmp_path: Path) -> None:
    install(tmp_path, 1)
    script = (
        "import sys\nfrom pathlib import Path\n"
        "from tests.unit.trains.wagons.test_used_inputs import install\n"
        "from branchline.jobs.package_versions import is_new_to_process, version_of\n"
        "folder = Path(sys.argv[1])\nsys.path.insert(0, str(folder))\n"
        "print(is_new_to_process('packageofthistest'))\nimport packageofthistest\n"
        "print(is_new_to_process('packageofthistest'), is_new_to_process('numpy'))\n"
        "install(folder, 2)\n"
        "print(packageofthistest.SCALE, version_of('packageofthistest'), is_new_to_process('packageofthistest'))\n"
    )
    time.sleep(0.2)  # a process counts in hundredths of a second when it began
    ended = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True, cwd=REPOSITORY
    )
    assert ended.stdout.splitlines() == ["False", "False False", "1 2 True"]


def test_the_files_of_all_installed_packages_are_not_listed_for_modules_of_python(
    train: Callable[..., TrainResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[None] = []
    all_packages = importlib.metadata.packages_distributions

    def counted() -> Mapping[str, list[str]]:
        listed.append(None)
        return all_packages()

    monkeypatch.setattr(importlib.metadata, "packages_distributions", counted)
    (tmp_path / "wagons.py").write_text(f"import json\nfrom pathlib import Path\n{WAGON}")
    assert train(workers=0).record.reuse_notes == []
    assert train(workers=0).record.subjobs_reused == 2
    assert listed == []
