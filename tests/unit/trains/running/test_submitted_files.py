"""The files that the jobs of a submitted train share: whole or refused, the first one counts, leased to one task."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from branchline.base.limits import LEASE_STALE_S
from branchline.errors import BadFileError, MissingFileError
from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.trains.reuse.reuse import Reuse
from branchline.trains.reuse.stored_train import StoredModule, StoredSources
from branchline.trains.submitted.handle import SubmittedTrain
from branchline.trains.submitted.ledger_rows import KeptForJobs
from branchline.trains.submitted.submission_folder import (
    VERSION,
    BatchFolder,
    framed,
    read_framed,
    read_summary,
    write_again,
    write_first,
)
from branchline.trains.submitted.submit import _merge_stages, _spread
from branchline.trains.submitted.tasks.leases import Holder, Leases
from branchline.trains.submitted.unit_failures import bad_nodes


def test_the_first_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "result"
    assert write_first(path, b"first")
    assert not write_first(path, b"second")
    assert path.read_bytes() == b"first"
    write_again(path, b"third")
    assert path.read_bytes() == b"third"
    assert list(tmp_path.iterdir()) == [path]


def test_every_damaged_byte_of_a_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "result"
    content = framed("result", {"a": [1, 2, 3]}, {"events": 7})
    path.write_bytes(content)
    assert read_framed(path, "result", dict) == {"a": [1, 2, 3]}
    assert read_summary(path, "result")["events"] == 7
    start = content.index(b"\n")
    for position in range(start, len(content)):
        path.write_bytes(content[:position])
        with pytest.raises(BadFileError):
            read_framed(path, "result", dict)
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        with pytest.raises(BadFileError):
            read_framed(path, "result", dict)


def test_another_kind_and_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "result"
    path.write_bytes(framed("result", 1))
    with pytest.raises(BadFileError, match="not a submission"):
        read_framed(path, "submission", int)
    for version in (VERSION - 1, VERSION + 1):
        path.write_bytes(framed("result", 1).replace(b'"version": %d' % VERSION, b'"version": %d' % version))
        with pytest.raises(BadFileError, match=f"version {version}.*use the Branchline that submitted the train"):
            read_framed(path, "result", int)
    with pytest.raises(MissingFileError):
        read_framed(tmp_path / "none", "result", int)
    path.write_bytes(framed("result", 1))
    with pytest.raises(BadFileError, match="contains a int, not a str"):
        read_framed(path, "result", str)


def leases(tmp_path: Path, task: str, attempt: str) -> Leases:
    return Leases(Holder(task, attempt, "host", 1), tmp_path / f"clock.{attempt}")


def test_a_lease_has_one_holder_until_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "0.0.lease"
    first, second = leases(tmp_path, "0.0.1", "a"), leases(tmp_path, "0.0.2", "b")
    assert first.take(path)
    assert not second.take(path)
    first.give_back(path)
    assert second.take(path)
    second.close()
    assert not path.exists()
    first.close()


def test_a_lease_passes_on_when_its_holder_is_silent_or_started_again(tmp_path: Path) -> None:
    path = tmp_path / "0.0.lease"
    first, second = leases(tmp_path, "0.0.1", "a"), leases(tmp_path, "0.0.2", "b")
    assert first.take(path)
    then_s = time.time() - LEASE_STALE_S - 1
    os.utime(path, (then_s, then_s))
    assert second.take(path)
    again = leases(tmp_path, "0.0.2", "c")
    assert again.take(path)
    assert json.loads(path.read_text())["attempt"] == "c"


def test_a_process_that_stood_still_leaves_the_lease_of_its_successor_alone(tmp_path: Path) -> None:
    path = tmp_path / "0.0.lease"
    first, second, third = (leases(tmp_path, f"0.0.{one}", one) for one in ("a", "b", "c"))
    assert first.take(path)
    stale_s = time.time() - LEASE_STALE_S - 1
    os.utime(path, (stale_s, stale_s))
    assert second.take(path)
    os.utime(path, (stale_s, stale_s))
    first.renew()
    assert path.stat().st_mtime == pytest.approx(stale_s)
    second.renew()
    assert time.time() - path.stat().st_mtime < LEASE_STALE_S
    first.close()
    assert not third.take(path)
    second.close()
    assert not path.exists()


def test_a_lease_that_was_lost_is_written_again_until_it_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "0.0.lease"
    first, second = leases(tmp_path, "0.0.1", "a"), leases(tmp_path, "0.0.2", "b")
    assert first.take(path)
    path.unlink()
    first.renew()
    assert not second.take(path)
    first.give_back(path)
    first.renew()
    assert not path.exists()


def test_a_lease_that_is_released_while_it_is_taken_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a task that is started again while its process before still ends: nobody else would do the unit."""
    path = tmp_path / "0.0.lease"
    before, again = leases(tmp_path, "0.0.1", "a"), leases(tmp_path, "0.0.1", "b")
    assert before.take(path)
    written: list[Path] = []

    def released_behind(target: Path, content: bytes) -> None:
        write_again(target, content)
        if not written:
            target.unlink()
        written.append(target)

    monkeypatch.setattr("branchline.trains.submitted.tasks.leases.write_again", released_behind)
    assert again.take(path)
    assert json.loads(path.read_text())["attempt"] == "b"


def test_a_lease_that_cannot_be_read_is_held_until_it_is_stale(tmp_path: Path) -> None:
    path = tmp_path / "0.0.lease"
    path.mkdir()
    first = leases(tmp_path, "0.0.1", "a")
    assert not first.take(path)
    path.rmdir()
    path.write_text("{")
    assert not first.take(path)
    stale_s = time.time() - LEASE_STALE_S - 1
    os.utime(path, (stale_s, stale_s))
    assert first.take(path)


def test_jobs_run_the_sources_as_they_were(tmp_path: Path) -> None:
    package = tmp_path / "cuts_of_a_user"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text("from cuts_of_a_user.inner.values import LOWEST\n")
    values = package / "inner" / "values.py"
    values.write_text("from pathlib import Path\nLOWEST = 1\nHERE = Path(__file__).parent\n")
    stored = [
        StoredModule(name, str(path), path.read_bytes())
        for name, path in (("cuts_of_a_user", package / "__init__.py"), ("cuts_of_a_user.inner.values", values))
    ]
    sources = StoredSources(tuple(stored), (str(tmp_path),))
    assert sources.changed() == []
    values.write_text("LOWEST = 2\n")
    assert sources.changed() == [str(values)]
    pickled = tmp_path / "sources"
    pickled.write_bytes(framed("sources", sources))
    script = (
        "import sys; from pathlib import Path\n"
        "from branchline.trains.submitted.submission_folder import read_framed\n"
        "from branchline.trains.reuse.stored_train import StoredSources\n"
        "read_framed(Path(sys.argv[1]), 'sources', StoredSources).install()\n"
        "import cuts_of_a_user\nfrom cuts_of_a_user.inner import values\n"
        "print(cuts_of_a_user.LOWEST, values.HERE)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(pickled)], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["1", str(values.parent)], done.stderr


@pytest.mark.parametrize(("count", "tasks"), [(1, 5), (5, 5), (7, 3), (1000, 7)])
def test_units_are_spread_evenly_and_in_order(count: int, tasks: int) -> None:
    nodes = [FoldNode(0, index) for index in range(count)]
    spread = _spread(nodes, tasks)
    assert [one for task in spread for one in task] == nodes
    assert len(spread) == min(count, tasks)
    assert max(map(len, spread)) - min(map(len, spread)) <= 1


def test_the_last_job_folds_a_bounded_number_of_parts() -> None:
    assert _merge_stages(FoldTree(300), 0) == ()
    assert _merge_stages(FoldTree(8000), 0) == (1,)
    assert _merge_stages(FoldTree(100_000), 1) == (2,)
    assert _merge_stages(FoldTree(100_000), 0) == (1, 2)


def test_a_folder_without_a_submission_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="no train was submitted into this directory"):
        SubmittedTrain(tmp_path)


def test_what_is_kept_of_sub_jobs_and_damaged_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = BatchFolder(tmp_path)
    folder.kept_folder.mkdir(parents=True)
    (folder.kept_folder / "0").write_bytes(b"nothing that was written by a train")
    assert KeptForJobs(folder, Reuse.__new__(Reuse)).of(0, "key") is None
    assert "cached results cannot be read, so their sub-jobs run again" in capsys.readouterr().out


def test_a_node_is_bad_when_all_fails_there_and_not_elsewhere(tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path)
    folder.accounts.mkdir(parents=True)

    def task(number: int, node: str, code: int | None) -> None:
        (folder.accounts / f"0.0.{number}.node").write_text(f"{node}\n")
        if code is not None:
            (folder.accounts / f"0.0.{number}.exit").write_text(f"{code}\n")

    for number in range(3):
        task(number, "hole", 127)
        task(10 + number, "mixed", 1)
        # Killed, cancelled, and still at work.
        task(20 + number, "cancelled", (137, 143, None)[number])
    assert bad_nodes(folder) == ()
    task(30, "mixed", 0)
    assert bad_nodes(folder) == ("hole",)
    (folder.accounts / "0.0.1.exit").unlink()
    assert bad_nodes(folder) == ()
