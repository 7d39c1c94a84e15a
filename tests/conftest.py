"""Fixtures for all tests (the top folder of the sources, a small dataset of simulated collisions), and pytest hooks."""

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
#: Timeout of tests that are marked long or may wait for a batch system, unless they set their own timeout. Only tests
#: that hang reach it, even on a busy machine.
LONG_TIMEOUT_S = 600
TRUSTED_USERS = "BRANCHLINE_TRUSTED_USERS"


# If a shell starts the tests in the background, they and their child processes ignore SIGINT. Some tests send SIGINT to
# child processes, so restore the default handler.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Commands store state of the user in a temporary folder. This must be set before `tests.branchline_command` is
# imported, because that module copies the environment of this process for the commands.
_STATE = tempfile.TemporaryDirectory(prefix="branchline-tests-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name


@pytest.fixture(scope="session")
def repository() -> Path:
    """Return the top folder of the sources."""
    return REPOSITORY


@pytest.fixture(autouse=True)
def trusted_users_end_with_the_test() -> Generator[None]:
    """Restore the environment variable of trusted users after each test. A command that runs in this process sets the
    variable to pass ``--trust-user`` to its workers. With a changed environment, each later command would start a new
    Python process instead of forking from the server of `tests.branchline_command`.
    """
    before = os.environ.get(TRUSTED_USERS)
    yield
    if before is None:
        os.environ.pop(TRUSTED_USERS, None)
    else:
        os.environ[TRUSTED_USERS] = before


@pytest.fixture(scope="session")
def collisions(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return a folder with three small files of simulated collisions, and `collisions.txt`, which lists these files."""
    from branchline.trains.demo.demo_files import LIST_NAME, make_data

    session = tmp_path_factory.getbasetemp()
    folder = (session if worker_id == "master" else session.parent) / "collisions"
    # Only one test worker creates the files. A second worker would replace files that tests are already reading.
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / LIST_NAME).exists():
            make_data(folder, files=3, events_per_file=20, seed=7, workers=1)
    return folder


def pytest_configure(config: pytest.Config) -> None:
    """Remove the folder with the state of the user at the end of the test run."""
    config.add_cleanup(_STATE.cleanup)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Disable the garbage collector while tests are collected, because it would take a quarter of that time.
    Afterwards, exclude all existing objects from later garbage collections.
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
    """Remove the environment variable with the test's name. The server from which worker processes are forked is only
    reused while the environment stays the same.
    """
    os.environ.pop("PYTEST_CURRENT_TEST", None)
    return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run files with slow tests first, and set the timeout of long tests. Each test worker takes one file at a time, so
    a slow file at the end would run while the other workers are idle.
    """
    for item in items:
        takes_long = item.get_closest_marker("long") or CLUSTERS in item.path.parents
        if takes_long and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_TIMEOUT_S))
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the property `summary` of all tests that recorded one, including tests that passed.

    Printing it in the test has no effect: pytest hides the output of passing tests, and several workers have no
    terminal.
    """
    reports = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    for report in reports:
        for name, text in report.user_properties:
            if name == "summary":
                terminalreporter.section(report.nodeid)
                terminalreporter.write_line(text)
