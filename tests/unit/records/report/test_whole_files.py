"""Files that appear only when they are whole, and what is said when they cannot."""

from __future__ import annotations

import errno
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from branchline.base.whole_files import retried, whole_file, write_whole
from branchline.errors import MissingFileError, StorageError


def test_the_final_name_appears_with_the_whole_content(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "results.root"
    with whole_file(path) as temporary:
        assert temporary.suffix == ".root"
        temporary.write_bytes(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"
    assert list(path.parent.iterdir()) == [path]


def test_an_error_on_the_way_leaves_the_earlier_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "job.json"
    write_whole(path, b"earlier")
    with pytest.raises(TypeError), whole_file(path) as temporary, temporary.open("wb") as file:
        file.writelines([b"half", None])
    assert path.read_bytes() == b"earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_refusal_names_the_file_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file where a directory should be")
    path = tmp_path / "out" / "job.json"
    with pytest.raises(StorageError) as caught:
        write_whole(path, b"")
    assert str(path) in str(caught.value)
    assert "output directory" in str(caught.value)


def test_writing_is_retried_while_a_folder_refuses_or_is_gone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    calls = []

    def write() -> str:
        calls.append(1)
        if len(calls) == 1:
            try:
                raise OSError(errno.EROFS, "refused")
            except OSError:
                raise StorageError("cannot write results here") from None
        if len(calls) == 2:
            out.rmdir()
            raise MissingFileError("no such file")
        return "written"

    assert retried(out, write, 60.0, lambda: False) == "written"
    assert len(calls) == 3


def test_other_errors_and_the_end_of_the_time_are_not_retried(tmp_path: Path) -> None:
    calls = []

    def fails(number: int) -> None:
        calls.append(number)
        raise OSError(number, "refused")

    for number, wait_s, stops in ((errno.EACCES, 60.0, False), (errno.ENOSPC, 0.0, False), (errno.ENOSPC, 60.0, True)):
        with pytest.raises(OSError, match="refused"):
            retried(tmp_path, partial(fails, number), wait_s, lambda stops=stops: stops)  # type: ignore[misc]
    assert calls == [errno.EACCES, errno.ENOSPC, errno.ENOSPC]


# The system refuses a file larger than the limit as it refuses one on a full disk: in the middle of writing.
_FULL_DISK = """
import resource, sys, types
from pathlib import Path
import hist, numpy
from branchline.errors import StorageError
from branchline.records.output import write_out
from branchline.records.sensors.record import JobRecord
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
job = JobRecord(status="finished", events=10, wall_s=1.0, phases={"wagons": 1.0})
large = hist.Hist.new.Reg(100_000, 0, 1).Double()
large.view()[...] = numpy.random.default_rng(1).normal(size=100_000)
outputs = {"small": {"n": 3}, "large": {"h": large}, "last": {"n": 4}}
result = types.SimpleNamespace(outputs=outputs, record=job, sensors=[], close_clock=lambda: None)
try:
    write_out(Path(sys.argv[1]), result)
except StorageError as error:
    print(job.status, error)
"""


def test_a_full_disk_names_the_file_keeps_the_rest_and_marks_the_job_as_partial(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path)], capture_output=True, text=True, check=True, timeout=280
    )
    assert run.stdout.startswith(f"partial {tmp_path}/results/large/h.json could not be written")
    assert "free some space" in run.stdout
    assert (tmp_path / "results" / "small.json").exists()
    assert (tmp_path / "results" / "last.json").exists()
    assert not (tmp_path / "results.root").exists()
    assert "partial" in (tmp_path / "job.json").read_text()
    assert "could not be written" in (tmp_path / "report.html").read_text()
    assert not list(tmp_path.rglob(".writing-*"))
