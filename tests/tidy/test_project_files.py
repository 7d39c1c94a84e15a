"""Files for code hosts, packagers and contributors agree with the rest of the project."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

FORMS = ["bug.yml", "feature.yml"]
PINNED_ACTION = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
CHANGELOG_LINES_MAX = 60


def settings(path: Path) -> dict:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["ci.yml", "release.yml"])
def test_actions_are_pinned_to_commits(repository: Path, name: str) -> None:
    text = (repository / ".github" / "workflows" / name).read_text(encoding="utf-8")
    actions = re.findall(r"uses: (.*)", text)
    assert actions
    for action in actions:
        name_and_commit, _, version = action.partition(" # ")
        assert PINNED_ACTION.fullmatch(name_and_commit), action
        assert version.startswith("v"), f"{action}: the version belongs in a comment"


def test_only_the_job_that_publishes_may_ask_for_tokens(repository: Path) -> None:
    release = settings(repository / ".github" / "workflows" / "release.yml")
    assert release["permissions"] == {"contents": "read"}
    publishing = {name: job["permissions"] for name, job in release["jobs"].items() if "permissions" in job}
    assert publishing == {"publish": {"id-token": "write"}}
    assert set(release["jobs"]["publish"]["needs"]) == {"wheels", "sdist"}


def test_commands_of_workflows_and_hooks_are_targets_of_make(repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    names = [".github/workflows/release.yml", ".pre-commit-config.yaml", ".readthedocs.yaml"]
    for name in names:
        called = re.findall(r"\bmake ([a-z-]+)", (repository / name).read_text(encoding="utf-8"))
        assert called
        assert set(called) - {"release"} <= targets, name


def test_hooks_run_what_make_check_runs(repository: Path) -> None:
    makefile = (repository / "Makefile").read_text(encoding="utf-8")
    (checks,) = re.findall(r"^check: (.*?) ##", makefile, re.MULTILINE)
    hooks = settings(repository / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert {one["entry"] for one in hooks} == {f"make {name}" for name in checks.split()}


def test_the_citation_and_the_recipe_have_the_version_of_the_crates(repository: Path) -> None:
    workspace = tomllib.loads((repository / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]
    citation = settings(repository / "CITATION.cff")
    assert (citation["version"], citation["license"]) == (workspace["version"], workspace["license"])
    recipe = settings(repository / "release" / "conda" / "recipe.yaml")
    assert recipe["context"]["version"] == workspace["version"]


def test_the_recipe_needs_what_the_package_needs(repository: Path) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = settings(repository / "release" / "conda" / "recipe.yaml")
    needed = {one.replace(" ", "") for one in recipe["requirements"]["run"]}
    assert needed == {f"python{project['requires-python']}", *project["dependencies"]}


def test_owners_are_of_folders_that_exist(repository: Path) -> None:
    lines = (repository / ".github" / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    folders = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert folders[0] == "*"
    for folder in folders[1:]:
        assert (repository / folder.strip("/")).is_dir(), folder


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_issues_have_what_the_host_requires(repository: Path, name: str) -> None:
    form = settings(repository / ".github" / "ISSUE_TEMPLATE" / name)
    assert {"name", "description", "body"} <= set(form)
    identifiers = [element["id"] for element in form["body"]]
    assert len(set(identifiers)) == len(identifiers)
    assert all("label" in element["attributes"] for element in form["body"])


def test_the_pinned_compiler_is_one_that_cargo_allows(repository: Path) -> None:
    toolchain = tomllib.loads((repository / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]
    oldest = tomllib.loads((repository / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"][
        "rust-version"
    ]
    pinned = [int(part) for part in toolchain["channel"].split(".")]
    assert pinned >= [int(part) for part in oldest.split(".")]
    assert set(toolchain["components"]) == {"clippy", "rustfmt"}


def test_the_changelog_is_short_and_sorted_by_kind(repository: Path) -> None:
    text = (repository / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = text.partition("## [Unreleased]")[2].partition("\n## ")[0]
    assert len(unreleased.splitlines()) <= CHANGELOG_LINES_MAX
    kinds = re.findall(r"^### (.*)$", unreleased, re.MULTILINE)
    assert kinds
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
