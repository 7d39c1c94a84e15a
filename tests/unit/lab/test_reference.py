"""The reference job: its file and values never change, and a turn tells wrong values, slow storages and slow processors
apart.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.branchline_command import run_branchline

from branchline.errors import BranchlineError, OptionError
from branchline.lab.reference.frozen_events import BRANCHES, CLUSTER_EVENTS, clusters
from branchline.lab.reference.frozen_file import EVENTS_MAX, KNOWN, FrozenFile, frozen_file, write_frozen
from branchline.lab.reference.frozen_job import run_frozen_job
from branchline.lab.studies.history import (
    HistoryPoint,
    ReferencePoint,
    add_points,
    counted_points,
    histories,
    verdict,
)
from branchline.lab.studies.reference_watch import ReferenceWatch
from branchline.lab.studies.schedule import take_turn
from branchline.records.sensors.this_process import processor

#: A small reference file, as it is on every machine.
SMALL = FrozenFile(
    2000,
    126_589,
    "2d6984ca6456aa108884cc458af4c9d741ee7eceb957be7ef77de3d3a27e71e4",
    "bb14d8f7fb0e7158a4ba2d0dac700ac1d7e8489cf0cb33aead4565be8089692a",
)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of ranges of the files in a folder."""

    class Ranges(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            file = folder / self.path.lstrip("/")
            content = file.read_bytes() if file.is_file() else b""
            asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            first, last = (int(asked[1]), int(asked[2])) if asked else (0, len(content) - 1)
            part = content[first : last + 1]
            self.send_response(404 if not content else 206 if asked else 200)
            self.send_header("Content-Length", str(len(part)))
            self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(content)}")
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(part)

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Keeps quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ranges) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def turn(folder: Path, *where: object, frozen: FrozenFile = SMALL, on: object = None) -> list[HistoryPoint]:
    watch = ReferenceWatch(where=tuple(str(one) for one in where), frozen=frozen, on=on)
    return take_turn(watch, folder, 1, lambda _: None)


def test_the_file_has_the_same_bytes_on_every_machine_and_the_values_that_uproot_reads(tmp_path: Path) -> None:
    assert write_frozen(tmp_path, 2000) == SMALL
    with uproot.open(tmp_path / SMALL.name) as file:
        theirs = file["events"].arrays(BRANCHES)
    [ours] = clusters(2000)
    assert all(theirs[name].tolist() == ours[name].tolist() for name in BRANCHES)
    assert theirs["particle_e"].layout.content.dtype == np.dtype("f4")


@pytest.mark.long
def test_the_file_of_default_size_is_the_known_one(tmp_path: Path) -> None:
    assert write_frozen(tmp_path, KNOWN.events) == KNOWN
    found = run_frozen_job(str(tmp_path / KNOWN.name), KNOWN)
    assert (found.events, found.wrong) == (KNOWN.events, "")


def test_a_file_that_is_there_is_kept_and_another_one_is_refused(tmp_path: Path) -> None:
    found = frozen_file(tmp_path, CLUSTER_EVENTS + 1)
    written = (tmp_path / found.name).stat().st_mtime_ns
    assert frozen_file(tmp_path, CLUSTER_EVENTS + 1) == found
    assert (tmp_path / found.name).stat().st_mtime_ns == written
    (tmp_path / SMALL.name).write_bytes(b"something else")
    with pytest.raises(OptionError, match="another file has the name"):
        write_frozen(tmp_path, 2000)
    assert (tmp_path / SMALL.name).read_bytes() == b"something else"
    for events in (0, EVENTS_MAX + 1):
        with pytest.raises(OptionError, match="can have 1 to"):
            write_frozen(tmp_path, events)
    assert not list(tmp_path.glob(".*"))


def test_a_turn_measures_a_folder_and_a_server_beside_the_processor(tmp_path: Path) -> None:
    write_frozen(tmp_path / "se", 2000)
    with served(tmp_path / "se") as url:
        points = turn(tmp_path / "watched", tmp_path / "se", url)
    assert [one.storage for one in points] == [str(tmp_path / "se"), url]
    for one in points:
        assert (one.samples, one.lost, one.error, one.worker) == (6, 0, "", processor())
        assert one.ratio
        assert (one.low or 0.0) <= one.ratio <= (one.high or 0.0)
        reference = one.reference
        assert reference
        assert (reference.version, reference.events, reference.wrong) == (1, 2000, "")
        measured = (reference.fetch_bytes_per_s, reference.call_bytes, reference.read_s, reference.benchmark_cpu_s)
        assert all(number and number > 0 for number in measured)
    assert [one.points for one in histories(tmp_path / "watched")] == [[one] for one in points]


def test_wrong_bytes_and_wrong_values_are_no_slow_samples(tmp_path: Path) -> None:
    write_frozen(tmp_path / "good", 2000)
    content = bytearray((tmp_path / "good" / SMALL.name).read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = b"harmed!!"
    for name, harmed in (("harmed", bytes(content)), ("short", bytes(content[:-1]))):
        (tmp_path / name).mkdir()
        (tmp_path / name / SMALL.name).write_bytes(harmed)
    points = turn(tmp_path / "watched", *(tmp_path / name for name in ("good", "harmed", "short")))
    assert [(one.samples, one.lost) for one in points] == [(6, 0), (0, 6), (0, 6)]
    wrong = [one.reference.wrong for one in points if one.reference]
    assert wrong[0] == ""
    assert wrong[1].startswith("wrong file: its SHA-256 is")
    assert wrong[2] == "wrong file: 126588 bytes instead of 126589"
    lines = verdict(histories(tmp_path / "watched"))
    assert [one for one in lines if "harmed on" in one and "UTC wrong file: its SHA-256 is" in one]
    other = run_frozen_job(str(tmp_path / "good" / SMALL.name), replace(SMALL, values="other"))
    assert other.wrong.startswith("wrong values: 2000 events, sums {'event': 1999000,")
    assert (other.benchmark_s, other.benchmark_cpu_s) == (0.0, 0.0)
    with pytest.raises(BranchlineError, match=r"[Nn]o such file"):
        run_frozen_job(str(tmp_path / "gone.root"), SMALL)


def test_a_storage_that_is_gone_is_a_failure_at_each_type_of_worker(tmp_path: Path) -> None:
    reference = ReferencePoint(1, 2000, 1e8, 1e6, 2.0, 1.9)
    known = HistoryPoint("2026-01-01", "se", 1.1, samples=6, processor="old", reference=reference)
    add_points(tmp_path, [known, replace(known, processor="new"), replace(known, processor="new", place="slurm")])
    [gone] = turn(tmp_path, tmp_path / "se")
    add_points(tmp_path, [replace(gone, storage="se")])
    found = [one for one in histories(tmp_path) if one.storage == "se"]
    assert [one.worker for one in found] == ["old", "new", "slurm: new"]
    assert [(one.failed_part, one.points[-1].lost) for one in found] == [(1 / 7, 1)] * 3


def test_turns_of_another_reference_job_do_not_count(tmp_path: Path) -> None:
    point = HistoryPoint("2026-01-01", "se", 1.1, processor="it", reference=ReferencePoint(1, 2000, 1e8, 1e6, 2.0, 1.9))
    larger = replace(point, at="2026-01-02", ratio=1.4, reference=ReferencePoint(1, 4000, 2e8, 1e6, 4.0, 3.9))
    add_points(tmp_path, [point, point, larger])
    [found] = histories(tmp_path)
    assert (found.ratio, len(found.points), counted_points(found.points)) == (1.4, 3, [larger])
    assert found.reference == larger.reference


def test_the_command_puts_the_file_and_says_what_it_found(tmp_path: Path) -> None:
    (tmp_path / "se").mkdir()
    words = ["study", "reference", "se", "unmounted", "-o", "out", "--put", "--events", "2000"]
    done = run_branchline(tmp_path, words)
    # One of the storages could not be read.
    assert done.returncode == 1, done.stderr
    assert (tmp_path / "se" / SMALL.name).stat().st_size == SMALL.size_bytes
    assert not (tmp_path / "unmounted").exists()
    missing, found = done.stdout.splitlines()
    assert missing.startswith("unmounted: not measured: ")
    assert re.match(rf"se on {re.escape(processor())}: \d+\.\d+ times the time of the CPU benchmark \(", found)
    said = run_branchline(tmp_path, ["study", "history", "out"])
    assert f"se on {processor()}: " in said.stdout, said.stderr
    refused = run_branchline(tmp_path, ["study", "reference", "se", "-o", "out", "--samples", "3"])
    assert "3 samples are too few" in refused.stderr


@pytest.mark.long
def test_the_job_runs_on_a_farm(tmp_path: Path) -> None:
    write_frozen(tmp_path / "se", 2000)
    with ProcessPoolExecutor(1, get_context("spawn")) as executor:
        [point] = turn(tmp_path / "watched", tmp_path / "se", on=executor)
    assert (point.samples, point.lost, point.worker) == (6, 0, f"executor: {processor()}")
