"""A sample of `python -m tests.peers.rewritten`: real files are merged with themselves, and read by all readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.rewritten.files import check_file
from tests.peers.rewritten.root_reader import declare
from tests.sampled import long_but

SAMPLE = [
    ("issue447_recursive.root", "fast"),
    ("TreeEventTreeSimple1.root", "baskets"),
    ("uproot-issue-697.root", "skim"),
    ("qualifiedName_v5.root", "slim"),
    # A file written by Geant4.
    ("uproot-issue-250.root", "fast"),
    ("uproot-issue-250.root", "baskets"),
]


@pytest.mark.parametrize(("name", "way"), long_but(SAMPLE, SAMPLE[1:4]))
def test_what_is_written_of_real_files_is_read_as_they_are(
    root: Any, shared: Path, tmp_path: Path, name: str, way: str
) -> None:
    declare(root)
    found = check_file(root, str(shared / "root" / name), way, tmp_path, {"ours", "uproot", "root"})
    assert (found.outcome, found.message) == ("fine", "")
