"""A release sets all versions, dates the changelog and creates a tag, or refuses an unprepared working tree."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

#: Files that a release reads or changes.
FILES = ["Cargo.toml", "Cargo.lock", "CITATION.cff", "CHANGELOG.md", "release/conda/recipe.yaml"]


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    """Create a Git repository with the files that a release reads or changes."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(repository / name, tmp_path / name)
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "config", "user.name", "Tester")
    git(tmp_path, "config", "user.email", "tester@example.org")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Begin")
    return tmp_path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def prepare(repository: Path, tree: Path, version: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(repository / "release" / "prepare.py"), version]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)


def test_a_release_sets_every_version_and_tags(repository: Path, tree: Path) -> None:
    done = prepare(repository, tree, "0.7.1")
    assert done.returncode == 0, done.stderr
    assert tomllib.loads((tree / "Cargo.toml").read_text())["workspace"]["package"]["version"] == "0.7.1"
    packages = tomllib.loads((tree / "Cargo.lock").read_text())["package"]
    ours = {one["name"]: one["version"] for one in packages if one["name"].startswith("branchline-")}
    assert ours.pop("branchline-fuzz") == "0.0.0"
    assert set(ours.values()) == {"0.7.1"}
    assert yaml.safe_load((tree / "CITATION.cff").read_text())["version"] == "0.7.1"
    assert yaml.safe_load((tree / "release/conda/recipe.yaml").read_text())["context"]["version"] == "0.7.1"
    changelog = (tree / "CHANGELOG.md").read_text()
    assert re.search(r"## \[Unreleased\]\n\n## 0\.7\.1 - \d{4}-\d\d-\d\d\n\n### Added\n", changelog)
    assert git(tree, "describe", "--exact-match") == "v0.7.1"
    assert git(tree, "log", "-1", "--format=%s") == "Release 0.7.1"
    assert git(tree, "status", "--porcelain") == ""


@pytest.mark.parametrize("version", ["", "0.7", "v0.7.1", "0.7.1rc1", "0.07.1", "0.7.1\n"])
def test_other_forms_of_versions_are_refused(repository: Path, tree: Path, version: str) -> None:
    assert_refused(repository, tree, version, "invalid version")


def test_versions_that_are_not_newer_are_refused(repository: Path, tree: Path) -> None:
    git(tree, "tag", "v0.10.0")
    assert_refused(repository, tree, "0.9.9", "not newer than the tag v0.10.0")
    assert_refused(repository, tree, "0.10.0", "not newer than the tag v0.10.0")


def test_uncommitted_changes_and_other_branches_are_refused(repository: Path, tree: Path) -> None:
    git(tree, "switch", "--quiet", "--create", "topic")
    assert_refused(repository, tree, "0.7.1", "git switch main")
    git(tree, "switch", "--quiet", "main")
    (tree / "new.txt").write_text("not committed")
    done = prepare(repository, tree, "0.7.1")
    assert (done.returncode, "uncommitted changes" in done.stderr) == (1, True)


def test_a_changelog_without_changes_is_refused(repository: Path, tree: Path) -> None:
    assert prepare(repository, tree, "0.7.1").returncode == 0
    assert_refused(repository, tree, "0.7.2", "lists no changes")


def assert_refused(repository: Path, tree: Path, version: str, reason: str) -> None:
    before = git(tree, "rev-parse", "HEAD"), git(tree, "tag")
    done = prepare(repository, tree, version)
    assert done.returncode == 1
    assert reason in done.stderr
    assert (git(tree, "rev-parse", "HEAD"), git(tree, "tag")) == before
    assert git(tree, "status", "--porcelain") == ""
