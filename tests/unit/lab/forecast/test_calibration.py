"""The calibration of a machine: measured, kept, read again, and used for codecs that a job did not meet."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.lab.forecast.test_planned_requests import write

from branchline.errors import BadFileError
from branchline.lab.forecast.calibration import (
    SETTINGS,
    Calibration,
    calibrate,
    load_calibration,
    save_calibration,
    with_calibrated,
)
from branchline.lab.forecast.checked import machine_name
from branchline.lab.forecast.rates import Rates
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
KNOWN = Calibration(machine_name(), NOW.isoformat(), 1e-10, {"zlib": 2e-9, "lzma": 6e-8})


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.long
def test_a_machine_and_a_storage_are_measured_and_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "file.root", [2000] * 5)
    found = calibrate([DataFile(str(path), "events")], Access())
    assert set(found.decompress_s_per_byte) == set(SETTINGS)
    assert all(seconds > 0 for seconds in found.decompress_s_per_byte.values())
    assert 0 < found.file_s < 1
    (storage,) = found.storages.values()
    assert storage.bytes_per_second > 0
    save_calibration(found)
    assert load_calibration() == found
    again = calibrate([], Access(), found)
    assert again.storages == found.storages


def test_there_is_none_before_the_first_and_none_of_another_machine() -> None:
    assert load_calibration() is None
    save_calibration(replace(KNOWN, machine="another"))
    assert load_calibration() is None


def test_its_age_is_said() -> None:
    ages = {
        timedelta(minutes=5): "less than an hour old",
        timedelta(hours=5): "less than a day old",
        timedelta(days=3): "3 days old",
    }
    for age, words in ages.items():
        assert KNOWN.age_words(NOW + age) == words
    assert "branchline calibrate" in KNOWN.age_words(NOW + timedelta(days=90))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"calibration_version": 99}', '{"calibration_version": 1}'])
def test_what_is_no_calibration_is_refused(text: str) -> None:
    path = save_calibration(KNOWN)
    path.write_text(text)
    with pytest.raises(BadFileError):
        load_calibration()


def test_a_moment_that_is_none_is_refused() -> None:
    path = save_calibration(KNOWN)
    path.write_text(json.dumps({**json.loads(path.read_text()), "measured_at": "yesterday"}))
    with pytest.raises(BadFileError):
        load_calibration()


def test_a_codec_that_was_not_met_is_as_fast_as_calibrated_on_the_machine_of_the_job() -> None:
    rates = with_calibrated(Rates(1e-10, {"zlib": 4e-9}), KNOWN)
    assert rates.decompress_s_per_byte == {"zlib": 4e-9, "lzma": pytest.approx(12e-8)}
    assert with_calibrated(Rates(1e-10, {"zlib": 4e-9}), None).decompress_s_per_byte == {"zlib": 4e-9}
