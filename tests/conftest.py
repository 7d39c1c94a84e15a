"""What all tests may ask for: the folder of the sources, and a small dataset of simulated collisions."""

from __future__ import annotations

import fcntl
import gc
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
CLUSTERS = REPOSITORY / "tests" / "clusters"
#: For a test that is marked long or may wait for a batch system, and has no limit of its own. It only ends what hangs,
#: on a busy machine, too.
LONG_TIMEOUT_S = 600
TRUSTED_USERS = "BRANCHLINE_TRUSTED_USERS"


# A shell that starts the tests in the background has them ignore Ctrl-C, and so what they start; some send it to that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What programs remember for their user stays with the tests. `tests.branchline_command`, which is imported after this
# module and before the tests are configured, takes the environment of commands from that of this process.
_STATE = tempfile.TemporaryDirectory(prefix="branchline-tests-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top folder of the sources."""
    return REPOSITORY


@pytest.fixture(autouse=True)
def trusted_users_end_with_the_test() -> Generator[None]:
    """Commands that run in this process pass ``--trust-user`` on to their workers by the environment. Later commands
    with another environment than the server of `tests.branchline_command` would each start a new Python.
    """
    before = os.environ.get(TRUSTED_USERS)
    yield
    if before is None:
        os.environ.pop(TRUSTED_USERS, None)
    else:
        os.environ[TRUSTED_USERS] = before


@pytest.fixture(scope="session")
def collisions(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with three small files of simulated collisions, and `collisions.txt`, which lists them."""
    from branchline.trains.demo.demo_files import LIST_NAME, make_data

    session = tmp_path_factory.getbasetemp()
    folder = (session if worker_id == "master" else session.parent) / "collisions"
    # One worker makes them: another one would replace files that tests read already.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / LIST_NAME).exists():
            make_data(folder, files=3, events_per_file=20, seed=7, workers=1)
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """Removes at the end what programs remembered for their user."""
    config.add_cleanup(_STATE.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect the tests without the garbage collector, which takes a quarter of that time, and leave all that was
    imported out of later collections.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Leaves the variable of the test's name out of the environment: worker processes are forked from one that is kept
    as long as the environment stays as it is.
    """
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: a worker takes a file at a time, and a long one at the end would run alone.
    Tests that take or wait long get their limit.
    """
    for item in items:
        takes_long = item.get_closest_marker("long") or CLUSTERS in item.path.parents
        if takes_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the property `summary` of tests that recorded one, also where they pass.

    Captured output of a passing test is not shown, and with several workers it has no terminal to go to.
    """
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    for report in reports:
        for name, text in report.user_properties:
            if name == "summary":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)
