"""Conversions of real trees are only advised if the output has all values, in an RNTuple also under all names."""

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
    subject = slow_subject(file, None)
    conversions = [one for one in (*proposals(subject), *columns_of_ntuple(subject)) if one.id == "format-rntuple"]
    assert conversions
    assert all(try_change(subject, one.change) is None for one in conversions)


def slow_subject(file: DataFile, branches: tuple[str, ...] | None) -> Subject:
    """Return a file whose decoding takes so long that its objects should be converted."""
    slow = Rates(1e-5, {"zlib": 0.5e-9, "zstd": 0.5e-9}, bytes_per_second=1e9)
    return Subject("a test", (file,), (laid_file(file, branches),), branches, Access(), slow, 1, 1, 4)


def test_objects_are_tried_as_flat_columns_of_the_branches_that_are_read(shared: Path, tmp_path: Path) -> None:
    file = DataFile(str(shared / "root/uproot-HZZ-objects.root"), "events")
    subject = slow_subject(file, ("muonp4", "MET"))
    (flat,) = (one for one in proposals(subject) if one.id == "format-flat")
    assert "--flatten --to ttree --verify --branches muonp4,MET --tree events" in flat.words
    trial = try_change(subject, flat.change)
    assert trial is not None
    assert min(trial.before_s, trial.after_s) > 0
    (written,) = write_changed(flat.change, subject.files, tmp_path, is_verified=True)
    columns = {"muonp4_fP_fX", "muonp4_fP_fY", "muonp4_fP_fZ", "muonp4_fE", "nmuonp4", "MET_fX", "MET_fY"}
    assert set(names_of(written)) == columns


def test_flat_columns_that_lack_members_are_not_proposed(shared: Path) -> None:
    subject = slow_subject(DataFile(str(shared / "root/Event2a.root"), "T"), None)
    (flat,) = (one for one in proposals(subject) if one.id == "format-flat")
    assert try_change(subject, flat.change) is None
