"""The workflow for GitHub is valid YAML with the required keys, and calls only commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml


@pytest.fixture(scope="module")
def jobs(repository: Path) -> dict[str, dict]:
    content = yaml.safe_load((repository / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    # The YAML parser reads the key `on` as the boolean true.
    assert {"name", "jobs", True} <= set(content)
    return content["jobs"]


def test_every_job_has_a_machine_a_deadline_and_steps(jobs: dict[str, dict]) -> None:
    for name, job in jobs.items():
        assert {"runs-on", "timeout-minutes", "steps"} <= set(job), name
        assert set(job.get("needs", "").split()) <= set(jobs), name
        for step in job["steps"]:
            assert len({"run", "uses"} & set(step)) == 1, f"{name}: {step}"


def test_every_make_target_exists(jobs: dict[str, dict], repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {word for run in runs for word in re.findall(r"\bmake ([a-z-]+)", run)}
    assert {"test", "wheel", "try-wheel", "fuzz", "miri", "docs"} <= called <= targets


def test_wheels_are_tried_on_every_python_that_is_supported(jobs: dict[str, dict]) -> None:
    matrix = jobs["try-wheels"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert matrix["os"] == jobs["wheels"]["strategy"]["matrix"]["os"]
