"""The record of a train's code is that of the files as they are now, however often trains run in one process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trains.wagons.conftest import run_in_chunks

from branchline.records.sensors.record_parts import CHANGED, COMMITTED, NOT_IN_GIT, NOT_KNOWN
from branchline.trains.plan import LoadedWagons
from branchline.trains.reuse.provenance import Inquiry, _source_records
from branchline.trains.reuse.stored_train import StoredModule

HELPER = "helper_of_provenance"
WAGONS = f"""
from {HELPER} import SCALE


def total(events):
    return SCALE * len(events)
"""


def git(folder: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def states(folder: Path, *names: str) -> list[tuple[str, str]]:
    modules = [StoredModule(name, str(folder / name), (folder / name).read_bytes()) for name in names]
    return [(one.commit, one.state) for one in _source_records(modules)]


def test_files_are_as_committed_changed_or_not_in_git(tmp_path: Path) -> None:
    names = ["as is.py", "\u00fcber.py", "edited.py", "staged.py", "forgotten.py", "folder/inner.py"]
    (tmp_path / "folder").mkdir()
    (tmp_path / ".gitignore").write_text("ignored*\n")
    git(tmp_path, "init", "--quiet")
    for name in names:
        (tmp_path / name).write_text("X = 1\n")
    assert states(tmp_path, *names) == [("", NOT_IN_GIT)] * len(names), "before the first commit"
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "All")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert states(tmp_path, *names) == [(head, COMMITTED)] * len(names)
    (tmp_path / "edited.py").write_text("X = 2\n")
    for name in ("added.py", "ignored.py", "untracked.py", "new.py"):
        (tmp_path / name).write_text("X = 1\n")
    (tmp_path / "staged.py").write_text("X = 2\n")
    git(tmp_path, "add", "staged.py", "new.py")
    git(tmp_path, "rm", "--quiet", "--cached", "forgotten.py")
    for name, state in {
        "as is.py": COMMITTED,
        "\u00fcber.py": COMMITTED,
        "folder/inner.py": COMMITTED,
        "edited.py": CHANGED,
        "staged.py": CHANGED,
        "new.py": CHANGED,
        "forgotten.py": NOT_IN_GIT,
        "ignored.py": NOT_IN_GIT,
        "untracked.py": NOT_IN_GIT,
    }.items():
        assert states(tmp_path, name) == [(head, state)], name


def test_a_train_does_not_wait_long_for_git_and_says_what_is_not_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "wagons.py").write_text("def total(events):\n    return len(events)\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "git").write_text("#!/bin/sh\nexec sleep 60\n")
    (programs / "git").chmod(0o700)
    loaded = LoadedWagons.of(f"{tmp_path / 'wagons.py'}:total")
    monkeypatch.setattr("branchline.trains.reuse.provenance.PROVENANCE_GIT_S", 0.1)
    for path in (f"{programs}:{os.environ['PATH']}", str(tmp_path)):
        monkeypatch.setenv("PATH", path)
        (source,) = Inquiry(loaded).answer().sources
        assert (Path(source.path).name, source.commit, source.state) == ("wagons.py", "", NOT_KNOWN)


def test_an_edit_between_two_trains_of_a_process_is_seen(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    (tmp_path / "wagons.py").write_text(WAGONS)
    helper = tmp_path / f"{HELPER}.py"
    helper.write_text("SCALE = 1\n")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "All")

    def run() -> dict[str, Any]:
        sources = run_in_chunks(f"{tmp_path / 'wagons.py'}:total", f"{folder}/f0.root").record.sources
        return {Path(one.path).name: (one.commit, one.state) for one in sources}

    head = git(tmp_path, "rev-parse", "HEAD")
    assert run() == {"wagons.py": (head, COMMITTED), helper.name: (head, COMMITTED)}
    # Of the same size, and within the same second.
    helper.write_text("SCALE = 2\n")
    assert run() == {"wagons.py": (head, COMMITTED), helper.name: (head, CHANGED)}
    git(tmp_path, "commit", "--quiet", "-a", "-m", "Scale")
    changed = git(tmp_path, "rev-parse", "HEAD")
    assert run() == {"wagons.py": (changed, COMMITTED), helper.name: (changed, COMMITTED)}
    # What a file imports is what it imports now.
    (tmp_path / "more_of_provenance.py").write_text("SCALE = 2\n")
    helper.write_text("from more_of_provenance import SCALE\n")
    assert run() == {
        "wagons.py": (changed, COMMITTED),
        helper.name: (changed, CHANGED),
        "more_of_provenance.py": (changed, NOT_IN_GIT),
    }
    sys.modules.pop(HELPER, None)
    sys.modules.pop("more_of_provenance", None)
