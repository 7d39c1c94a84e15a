"""Wagons that are enabled or changed are tried at once, in a process of their own or in a sandbox."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.clusters.event_files import write_events
from tests.peers.peers import missing

from branchline.control.database import Database
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry, WagonEntry, WagonSource
from branchline.control.registry.registry import Registry, SourceStore
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.sandbox import Sandbox
from branchline.control.trials.profiles import hot_lines
from branchline.control.trials.start import run_trial
from branchline.control.trials.trial import DONE, FAILED, QUEUED, RUNNING, WARNED, TrialRequest, reasons, warnings
from branchline.control.trials.trials import Trial, Trials, TrialState

ADA = Person("ada")
SOURCE = """
import numpy as np

class Total:
    branches = ["px"]
    def __init__(self, px_min: float = 0.0):
        self.px_min = px_min
    def process(self, events):
        return {"sum": float(np.sum(np.asarray(events.px) > self.px_min))}

class Wrong:
    branches = ["px"]
    def process(self, events):
        return {"sum": events.px / undefined_name}

class Twice:
    requires = ["total"]
    def process(self, events):
        return {"twice": 2 * events.outputs["total"]["sum"]}
"""
WAIT_S = 240.0


class Room:
    """A registry with a dataset of two files, and its trials."""

    def __init__(self, folder: Path, sandbox: Sandbox | None = None, data: tuple[Path, ...] = ()) -> None:
        (folder / "data").mkdir(exist_ok=True)
        write_events(folder / "data", 2, 400)
        self.sources = SourceStore(folder / "sources")
        self.database = Database(folder / "room")
        self.registry = Registry(self.database, self.sources)
        self.trials = Trials(self.database, self.registry, self.sources, folder / "trials", CodeRunning(sandbox, data))
        dataset = DatasetEntry("ada", "events", files=[str(folder / "data" / "*.root")])
        self.registry.save_dataset(dataset, ADA)

    def wagon(self, kind: str, name: str, source: str = SOURCE, dataset: str = "events", **fields: object) -> int:
        sha256 = self.sources.keep(source.encode())
        entry = WagonEntry("ada", name, source=WagonSource(sha256), wagon_class=kind)
        revision = self.registry.save_wagon(replace(entry, **fields), ADA)  # type: ignore[arg-type]
        self.registry.enable([f"ada/{name}"], f"ada/{dataset}", ADA)
        return revision

    def ended(self, name: str, dataset: str = "events") -> Trial:
        pair = (f"ada/{name}", f"ada/{dataset}")
        end = time.monotonic() + WAIT_S
        while time.monotonic() < end:
            found = self.trials.last([pair]).get(pair)
            if found is not None and found.state not in (QUEUED, RUNNING):
                return found
            time.sleep(0.05)
        raise AssertionError("the trial does not end")


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    room = Room(tmp_path)
    yield room
    room.trials.stop()
    room.database.close()


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    found = Sandbox.find()
    if isinstance(found, str):
        # A kernel that makes no namespaces has no sandbox, whatever is installed.
        pytest.skip(found) if "does not run here" in found else missing("bwrap")
    assert isinstance(found, Sandbox)
    return found


@pytest.mark.long
def test_what_is_enabled_is_tried_once_and_again_when_it_changes(room: Room) -> None:
    revision = room.wagon("Total", "total")
    room.trials.start()
    first = room.ended("total")
    assert first.state == DONE, reasons(first.outcome) if first.outcome else ""
    assert first.outcome is not None
    [wagon] = first.outcome.wagons
    assert (wagon.events, wagon.branches, first.outcome.events) == (800, ["px"], 800)
    assert wagon.seconds_per_event > 0
    assert room.trials.look() == 0
    entry = room.registry.wagon("ada/total").entry
    room.registry.save_wagon(replace(entry, values={"px_min": 1.0}), ADA, revision)
    assert room.trials.key_of("ada/total", "ada/events") != first.key
    assert room.trials.look() == 1
    end = time.monotonic() + WAIT_S
    while room.ended("total").number == first.number:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert len(room.trials.history("ada/total", "ada/events")) == 2


def test_how_trials_stand_is_told_without_reading_what_they_found(room: Room) -> None:
    """A page shows a thousand of them, and each may have a profile."""
    pairs = [(f"ada/{name}", "ada/events") for name in ("total", "other", "never")]
    rows = [(*pairs[0], "old", FAILED), (*pairs[0], "new", DONE), (*pairs[1], "new", QUEUED)]
    with room.database.writing() as connection:
        query = "INSERT INTO trials (wagon, dataset, key, state, queued, outcome) VALUES (?, ?, ?, ?, '', 'no outcome')"
        connection.executemany(query, rows)
    assert room.trials.states(pairs) == {pairs[0]: TrialState(2, DONE), pairs[1]: TrialState(3, QUEUED)}


@pytest.mark.long
def test_a_slow_wagon_has_the_profile_of_its_time(room: Room) -> None:
    slow = """
import time

def spin():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass

class Slow:
    branches = ["px"]
    def process(self, events):
        spin()
        return {"n": len(events)}
"""
    room.wagon("Slow", "slow", slow)
    room.trials.start()
    outcome = room.ended("slow").outcome
    assert outcome is not None
    [wagon] = outcome.wagons
    assert wagon.profile is not None
    lines = {one.function: one for one in hot_lines(wagon.profile)[:2]}
    assert set(lines) == {"Slow.process", "spin"}
    assert (lines["Slow.process"].file, lines["Slow.process"].line) == ("wagons.py", 12)
    assert lines["Slow.process"].whole > 0.9


def test_a_wagon_that_fails_is_told_with_its_line(room: Room) -> None:
    room.wagon("Wrong", "wrong")
    room.trials.start()
    trial = room.ended("wrong")
    assert trial.state == FAILED
    assert trial.outcome is not None
    [wagon] = trial.outcome.wagons
    assert "undefined_name" in wagon.error
    assert wagon.error_line == "wagons.py, line 14"
    assert reasons(trial.outcome) == [f"wrong: {wagon.error} ({wagon.error_line})"]


def test_wagons_that_it_requires_are_tried_with_it(room: Room) -> None:
    room.wagon("Total", "total")
    room.wagon("Twice", "twice", requires=["ada/total"])
    room.trials.start()
    trial = room.ended("twice")
    assert trial.outcome is not None
    assert (trial.state, [one.name for one in trial.outcome.wagons]) == (DONE, ["total", "twice"])


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("import os; os.kill(os.getpid(), 9)", "SIGKILL|died|ended"),
        pytest.param("raise SystemExit(3)", "SystemExit|ended with code|died", marks=pytest.mark.long),
        pytest.param("import ctypes; ctypes.string_at(0)", "SIGSEGV|died|ended", marks=pytest.mark.long),
    ],
)
def test_a_wagon_that_kills_its_process_fails_alone(room: Room, body: str, named: str) -> None:
    room.wagon("Deadly", "deadly", f"class Deadly:\n    def process(self, events):\n        {body}\n")
    room.wagon("Total", "total")
    room.trials.start()
    deadly = room.ended("deadly")
    assert deadly.outcome is not None
    assert deadly.state == FAILED
    assert any(part in " ".join(reasons(deadly.outcome)) for part in named.split("|"))
    assert room.ended("total").state == DONE


@pytest.mark.long
def test_a_large_result_is_warned_of(room: Room) -> None:
    source = "import numpy as np\nclass Large:\n    def process(self, events):\n        return np.zeros(30_000_000)\n"
    room.wagon("Large", "large", source)
    room.trials.start()
    trial = room.ended("large")
    assert trial.outcome is not None
    assert trial.state == WARNED
    assert any("result of large will have 240 MB" in one.what for one in warnings(trial.outcome))


@pytest.mark.long
def test_a_trial_that_a_stop_of_the_server_ended_is_tried_again(tmp_path: Path) -> None:
    room = Room(tmp_path)
    marker = tmp_path / "runs"
    source = f"""
import time
class Slow:
    def process(self, events):
        open({str(marker)!r}, "a").write("x")
        time.sleep(0.0 if len(open({str(marker)!r}).read()) > 1 else 600.0)
        return 1
"""
    room.wagon("Slow", "slow", source)
    room.trials.start()
    end = time.monotonic() + WAIT_S
    while not marker.exists():
        assert time.monotonic() < end
        time.sleep(0.02)
    room.trials.stop()
    [trial] = room.trials.last([("ada/slow", "ada/events")]).values()
    assert trial.state == RUNNING
    again = Trials(room.database, room.registry, room.sources, tmp_path / "trials", CodeRunning())
    room.trials = again
    again.start()
    assert room.ended("slow").state in (DONE, WARNED)
    again.stop()
    room.database.close()


HOSTILE = """
import os, pathlib, socket, subprocess, urllib.request

class Hostile:
    branches = ["px"]
    def process(self, events):
        found = {}
        def attempt(name, call):
            try:
                found[name] = repr(call())[:200]
            except BaseException as error:
                found[name] = "refused " + type(error).__name__
        attempt("secret", lambda: pathlib.Path(SECRET).read_text())
        attempt("home", lambda: os.listdir(os.path.dirname(SECRET)))
        attempt("passwd", lambda: pathlib.Path("/etc/passwd").read_text())
        attempt("write", lambda: pathlib.Path(DATA + "/new").write_text("x"))
        attempt("change", lambda: pathlib.Path(DATA + "/f0.root").write_bytes(b"x"))
        attempt("server", lambda: socket.create_connection(("127.0.0.1", PORT), 2))
        attempt("others", lambda: [one for one in os.listdir("/proc") if one == str(PARENT)] or 1 / 0)
        attempt("kill", lambda: os.kill(PARENT, 0))
        attempt("environment", lambda: os.environ["BRANCHLINE_SECRET_OF_THE_TEST"])
        attempt("environment of all", lambda: [1 for one in os.listdir("/proc") if one.isdecimal()
            and b"s3cr3t" in pathlib.Path("/proc", one, "environ").read_bytes()][0])
        attempt("database", lambda: open(ROOM + "/control.sqlite", "rb").read(10))
        raise RuntimeError("; ".join(f"{key}={value}" for key, value in found.items()))
"""


def test_code_in_the_sandbox_reaches_nothing_but_its_data(
    tmp_path: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_SECRET_OF_THE_TEST", "s3cr3t")
    secret = tmp_path / "private" / "secret.txt"
    secret.parent.mkdir()
    secret.write_text("s3cr3t")
    room = Room(tmp_path, sandbox, (tmp_path / "data",))
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = f"SECRET = {str(secret)!r}\nDATA = {str(tmp_path / 'data')!r}\nROOM = {str(tmp_path / 'room')!r}\n"
        names += f"PORT = {server.getsockname()[1]}\nPARENT = {os.getpid()}\n"
        room.wagon("Hostile", "hostile", names + HOSTILE)
        room.trials.start()
        trial = room.ended("hostile")
    room.trials.stop()
    room.database.close()
    assert trial.outcome is not None
    text = " ".join(reasons(trial.outcome))
    assert "RuntimeError" in text, text
    attempts = dict(one.split("=", 1) for one in text.partition("RuntimeError: ")[2].partition(" (")[0].split("; "))
    assert len(attempts) == 11
    assert {key: one for key, one in attempts.items() if not one.startswith("refused")} == {}
    assert "s3cr3t" not in text
    assert not (tmp_path / "data" / "new").exists()


def test_a_good_wagon_is_done_in_the_sandbox_too(tmp_path: Path, sandbox: Sandbox) -> None:
    room = Room(tmp_path, sandbox, data=(tmp_path / "data",))
    room.wagon("Total", "total")
    room.trials.start()
    trial = room.ended("total")
    room.trials.stop()
    room.database.close()
    assert trial.state == DONE, reasons(trial.outcome) if trial.outcome else ""


@pytest.mark.parametrize("given", ["secret", "link", "dots", "server", "chain", "replica"])
def test_others_are_tried_on_no_files_but_those_that_are_for_them(tmp_path: Path, sandbox: Sandbox, given: str) -> None:
    data, private = tmp_path / "data", tmp_path / "private"
    private.mkdir()
    write_events(private, 1, 10)
    secret = next(private.glob("*.root"))
    room = Room(tmp_path, sandbox, data=(data,))
    (data / "link.root").symlink_to(secret)
    files = {
        "secret": f"{private}/*.root",
        "link": str(data / "link.root"),
        "dots": f"{data}/../private/{secret.name}",
        "server": "http://127.0.0.1:9/f.root",
        "chain": f"simplecache::file://{secret}",
        "replica": f"{data}/0.root | {secret}",
    }[given]
    room.registry.save_dataset(DatasetEntry("ada", "theirs", files=[files]), ADA)
    room.wagon("Total", "total", dataset="theirs")
    room.trials.start()
    trial = room.ended("total", "theirs")
    room.trials.stop()
    room.database.close()
    assert trial.state == FAILED
    assert trial.outcome is not None
    assert "not in a data folder" in trial.outcome.error or "is a remote file" in trial.outcome.error


@pytest.mark.parametrize(
    "line", ["{private}/*.root", "{private}/", "http://127.0.0.1:{port}/*.root", "{data}/in/*.root"]
)
def test_lists_and_links_below_the_data_lead_nowhere_else(tmp_path: Path, sandbox: Sandbox, line: str) -> None:
    """The server may read more than others, and may ask servers that they cannot: it opens no list of theirs."""
    data, private = tmp_path / "data", tmp_path / "private"
    private.mkdir()
    write_events(private, 1, 10)
    secret = next(private.glob("*.root")).rename(private / "unheard-of.root")
    room = Room(tmp_path, sandbox, data=(data,))
    (data / "in").symlink_to(private)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        text = line.format(private=private, data=data, port=server.getsockname()[1])
        (data / "list.txt").write_text(f"{text}\n")
        room.registry.save_dataset(DatasetEntry("ada", "theirs", files=[str(data / "list.txt")]), ADA)
        room.wagon("Total", "total", dataset="theirs")
        room.trials.start()
        trial = room.ended("total", "theirs")
        room.trials.stop()
        room.database.close()
        with pytest.raises(BlockingIOError):
            server.accept()
    assert (trial.state, trial.outcome is not None) == (FAILED, True)
    assert secret.name not in str(trial.outcome)


@pytest.mark.long
def test_a_folder_and_a_list_of_the_data_are_read_in_the_sandbox(tmp_path: Path, sandbox: Sandbox) -> None:
    room = Room(tmp_path, sandbox, data=(tmp_path / "data",))
    (tmp_path / "elsewhere").symlink_to(tmp_path / "data")
    (tmp_path / "data" / "list.txt").write_text(f"{tmp_path}/data/*.root\n")
    for name, line in {"folder": "data/", "linked": "elsewhere/*.root", "list": "data/list.txt"}.items():
        room.registry.save_dataset(DatasetEntry("ada", name, files=[f"{tmp_path}/{line}"]), ADA)
        room.wagon("Total", f"total-{name}", dataset=name)
    room.trials.start()
    ended = [room.ended(f"total-{name}", name) for name in ("folder", "linked", "list")]
    room.trials.stop()
    room.database.close()
    assert [one.state for one in ended] == [DONE] * 3, [one.outcome for one in ended]


def test_a_trial_that_never_ends_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.trials.start.TRIAL_WALL_S", 4.0)
    write_events(tmp_path, 1, 10)
    wagons = tmp_path / "wagons.py"
    wagons.write_text("import time\nclass Slow:\n    def process(self, events):\n        time.sleep(600)\n")
    request = TrialRequest(str(wagons), [str(tmp_path / "*.root")])
    outcome = run_trial(request, tmp_path / "trial", CodeRunning(), threading.Event())
    assert outcome is not None
    assert "ran for more than 4 s" in outcome.error


def test_words_about_a_dataset_are_no_reason_for_another_trial(room: Room) -> None:
    room.wagon("Total", "total")
    room.trials.start()
    first = room.ended("total")
    entry, revision = room.registry.dataset("ada/events")
    room.registry.save_dataset(replace(entry, description="from 2026"), ADA, revision)
    assert room.trials.look() == 0
    assert room.trials.key_of("ada/total", "ada/events") == first.key


def test_trials_leave_nothing_on_the_disk(room: Room, tmp_path: Path) -> None:
    room.wagon("Total", "total")
    room.trials.start()
    room.ended("total")
    end = time.monotonic() + WAIT_S
    while list((tmp_path / "trials").iterdir()):
        assert time.monotonic() < end
        time.sleep(0.02)
