"""Converting real trees to RNTuples is only advised if all branches keep their names and values."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.lab.advice.changes import CONVERTED, AdvisedChange, write_changed
from branchline.lab.advice.proposals import columns_of_ntuple, proposals
from branchline.lab.advice.sample_trial import try_change
from branchline.lab.forecast.laid_file import laid_file, names_of
from branchline.lab.forecast.rates import Rates
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile


@pytest.mark.parametrize("name", ["NanoAODv5_sample.root:Events", "chain.flat.2.root:tree"])
def test_real_trees_with_counters_become_ntuples_that_are_the_same(shared: Path, tmp_path: Path, name: str) -> None:
    path, _, tree = name.partition(":")
    file = DataFile(str(shared / "root" / path), tree)
    (written,) = write_changed(AdvisedChange(CONVERTED), [file], tmp_path, is_verified=True)
    assert set(names_of(file)) <= set(names_of(written))


@pytest.mark.parametrize("name", ["fta_event_split0.root:E", "edm4hep_266.root:events"])
def test_a_conversion_that_renames_branches_is_not_proposed(shared: Path, name: str) -> None:
    path, _, tree = name.partition(":")
    file = DataFile(str(shared / "root" / path), tree)
    slow = Rates(1e-5, {"zlib": 0.5e-9, "zstd": 0.5e-9}, bytes_per_second=1e9)
    subject = Subject("a test", (file,), (laid_file(file, None),), None, Access(), slow, 1, 1, 4)
    conversions = [one for one in (*proposals(subject), *columns_of_ntuple(subject)) if one.id == "format-rntuple"]
    assert conversions
    assert all(try_change(subject, one.change) is None for one in conversions)
