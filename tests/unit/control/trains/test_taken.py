"""Results of others that are taken over: plain files alone, so many and so large, wherever they are said to be."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest

from branchline.control.trains import results
from branchline.control.trains.results import receive_results
from branchline.control.trains.sandbox_runner import take_folder
from branchline.errors import StorageError
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.status import TrainStatus


@pytest.fixture
def written(tmp_path: Path) -> Path:
    folder = tmp_path / "written"
    (folder / "results").mkdir(parents=True)
    (folder / "results" / "n.json").write_text("{}")
    return folder


def listed(folder: Path, *names: str) -> None:
    """Writes a record that lists files."""
    record = JobRecord(status="finished", written=list(names))
    (folder / "job.json").write_text(json.dumps(record.as_dict()))


def stream(*files: tuple[object, object, bytes]) -> io.BytesIO:
    """Files as the process of another user could send them."""
    content = b"".join(json.dumps({"name": a, "size_bytes": b}).encode() + b"\n" + c for a, b, c in files)
    return io.BytesIO(content + b"{}\n")


def test_the_listed_files_come_and_replace_those_before(written: Path, tmp_path: Path) -> None:
    listed(written, "results/n.json", "results/missing.json")
    results = tmp_path / "first.train"
    results.mkdir()
    (results / "old").touch()
    take_folder(written, results)
    assert sorted(one.name for one in results.iterdir()) == ["job.json", "results"]
    assert (results / "results" / "n.json").read_text() == "{}"
    assert not (tmp_path / "coming").exists()


@pytest.mark.parametrize(
    "name",
    [
        *("../secret", "/etc/passwd", "results/../../secret", "batch/submission", "ledger.sqlite", "status.json"),
        *(".hidden", "results/.hidden", "", "results//n.json", "a\nb", "x" * 2000),
    ],
)
def test_names_that_are_none_of_results_are_not_sent_and_not_taken(written: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").touch()
    listed(written, name, "results/n.json")
    take_folder(written, tmp_path / "first.train")
    assert sorted(one.name for one in (tmp_path / "first.train").rglob("*")) == ["job.json", "n.json", "results"]
    with pytest.raises(StorageError, match="invalid result file"):
        receive_results(stream((name, 1, b"x")), tmp_path / "second.train")
    assert not (tmp_path / "second.train").exists()


def test_links_and_pipes_are_refused_wherever_they_are(written: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "n.json").write_text("secret")
    os.symlink(tmp_path / "secret" / "n.json", written / "link.json")
    os.symlink(tmp_path / "secret", written / "folder")
    os.mkfifo(written / "pipe")
    for name in ("link.json", "folder/n.json", "pipe", "results"):
        listed(written, name)
        with pytest.raises(StorageError, match="cannot copy the results"):
            take_folder(written, tmp_path / "first.train")
    assert not (tmp_path / "first.train").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "truncated"),
        (b"\xff\n", "truncated"),
        (b"[" * 100_000, "truncated"),
        (b"[]\n", "invalid result file"),
        (b'{"name": "results/n", "size_bytes": -1}\n', "invalid result file"),
        (b'{"name": "results/n", "size_bytes": true}\n', "invalid result file"),
        (b'{"name": "results/n", "size_bytes": "9"}\n', "invalid result file"),
        (b'{"name": "results/n", "size_bytes": 10}\nabc', "truncated"),
        (b'{"name": "results/n", "size_bytes": 1e400}\nabc', "invalid result file"),
        (b'{"name": "results/n", "size_bytes": 9000000000000000}\nabc', "more than"),
        (b'{"name": "n", "size_bytes": 0}\n{"name": "n/n", "size_bytes": 0}\n{}\n', "could not be written"),
    ],
)
def test_what_another_user_sends_instead_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "first.train").mkdir()
    (tmp_path / "first.train" / "kept").touch()
    with pytest.raises(StorageError, match=said):
        receive_results(io.BytesIO(content), tmp_path / "first.train")
    assert [one.name for one in tmp_path.iterdir()] == ["first.train"]
    assert (tmp_path / "first.train" / "kept").exists()


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "TAKEN_FILES_MAX", 3)
    receive_results(stream(*((f"f{i}", 0, b"") for i in range(3))), tmp_path / "first.train")
    with pytest.raises(StorageError, match="more than 3 files"):
        receive_results(stream(*((f"f{i}", 0, b"") for i in range(4))), tmp_path / "second.train")


@pytest.mark.parametrize(("name", "value"), [("subjobs", "x"), ("wall_s", "soon"), ("events", 1 << 70)])
def test_a_record_or_a_state_of_impossible_values_is_none(written: Path, name: str, value: object) -> None:
    plain = JobRecord(status="running").as_dict()
    (written / "job.json").write_text(json.dumps(plain))
    assert results.record_of(written) is not None
    (written / "job.json").write_text(json.dumps({**plain, name: value}))
    assert results.record_of(written) is None
    (written / "status.json").write_text(json.dumps({**TrainStatus().as_dict(), "seconds": value}))
    assert name == "events" or results.at_work_in(written) is None
