"""A real HTCondor: Debian's in a folder of its own, as bookworm has none, on the loopback and with four slots.

The folder is made once, in target/clusters or where BRANCHLINE_HTCONDOR_ROOT says, and each pool has a copy. Jobs run
as an unprivileged user.
Its daemons are in a mount namespace of their own, so that nothing is left mounted when they end.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.debian_folder import debian_folder
from tests.stores.servers import free_port, program

REPOSITORY = Path(__file__).resolve().parents[2]
VARIABLE = "BRANCHLINE_HTCONDOR_ROOT"
PACKAGES = ("minicondor", "python3", "procps", "sudo", "bubblewrap", "mount")
# What says that all of them are there.
PROGRAMS = ("usr/sbin/condor_master", "usr/bin/sudo", "usr/bin/bwrap", "usr/bin/umount")
USER = "alice"
USER_NUMBER = 20_001
SLOTS = 4
START_TIMEOUT_S = 60
CALL_TIMEOUT_S = 100

CONFIGURATION = """
NETWORK_INTERFACE = 127.0.0.1
BIND_ALL_INTERFACES = False
ENABLE_IPV6 = False
CONDOR_HOST = 127.0.0.1
USE_SHARED_PORT = False
COLLECTOR_HOST = 127.0.0.1:{port}
BASE_CGROUP =
NUM_CPUS = {slots}
MEMORY = 8000
NEGOTIATOR_INTERVAL = 2
NEGOTIATOR_CYCLE_DELAY = 1
NEGOTIATOR_MIN_INTERVAL = 1
SCHEDD_INTERVAL = 2
SCHEDD_MIN_INTERVAL = 1
UPDATE_INTERVAL = 5
DAGMAN_USER_LOG_SCAN_INTERVAL = 1
PERIODIC_EXPR_INTERVAL = 2
START = TRUE
SUSPEND = FALSE
PREEMPT = FALSE
"""
START = """set -e
# Without this jobs are held: the mount namespace cannot be unshared.
mount --make-rprivate /
mount --bind {root} {root}
mount -t proc proc {root}/proc
mount --rbind /dev {root}/dev
mount --bind /sys {root}/sys
{binds}
cd {root}
# Not chroot, in which no program makes a user namespace, as the sandbox of a control room does.
mkdir -p before
pivot_root . before
/usr/bin/umount --lazy /before
exec condor_master -f </dev/null
"""


def root_folder() -> Path:
    """The folder with Debian and HTCondor; made if it is not there. Skips where it cannot."""
    folder = Path(os.environ.get(VARIABLE) or REPOSITORY / "target" / "clusters" / "trixie-minicondor")
    return debian_folder(folder, PACKAGES, PROGRAMS, "HTCondor")


class HTCondor:
    """Starts and ends the pool, and runs commands in it as its user. ``folder`` is what all jobs see."""

    def __init__(self) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root may start HTCondor for another user")
        for name in ("unshare", "nsenter", "chroot"):
            program(name)
        made = root_folder()
        # Not in the temporary folder, which each job has for itself.
        (REPOSITORY / "target" / "clusters").mkdir(parents=True, exist_ok=True)
        self.folder = Path(tempfile.mkdtemp(prefix="pool-", dir=REPOSITORY / "target" / "clusters"))
        self.folder.chmod(0o755)
        # Each pool has its own, as several are there at a time and write into it. Files are shared by links: one that
        # is changed is removed first.
        self._root = self.folder / "root"
        is_beside = made.stat().st_dev == self.folder.stat().st_dev
        subprocess.run(["cp", "-al" if is_beside else "-a", str(made), str(self._root)], check=True, timeout=300)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when its slots are there."""
        self._prepare()
        shared = [Path(sys.base_prefix), Path(sys.prefix), REPOSITORY]
        binds = [f"mkdir -p {self._root}{one}; mount --rbind {one} {self._root}{one}" for one in shared]
        script = self.folder / "start.sh"
        script.write_text(START.format(root=self._root, binds="\n".join(binds)))
        with (self.folder / "master.log").open("wb") as log:
            self._process = subprocess.Popen(
                [program("unshare"), "--mount", "bash", str(script)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._wait_for(self._has_slots, "the slots")

    def call(
        self, words: list[str], directory: Path, user: str = USER, timeout_s: float = CALL_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the pool's machine."""
        return subprocess.run(
            self.inside(words, directory, user),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def inside(self, words: list[str], directory: Path, user: str = USER) -> list[str]:
        """The command that runs a command on the pool's machine."""
        assert self._process is not None
        line = f"cd {shlex.quote(str(directory))} && exec {shlex.join(words)}"
        machine = ["nsenter", f"--target={self._process.pid}", "--mount", "--root", "--wd=/"]
        return [*machine, "/usr/bin/su", "-", user, "-c", line]

    def command(self, *words: object) -> str:
        """What one of HTCondor's commands prints."""
        done = self.call([str(one) for one in words], Path("/"))
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def own(self, folder: Path) -> None:
        """Gives a folder to the pool's user."""
        for one in [folder, *folder.rglob("*")]:
            os.chown(one, USER_NUMBER, USER_NUMBER)

    def add_user(self, name: str, number: int) -> None:
        """Makes a user of the pool's machine."""
        if f"{name}:" not in (self._root / "etc" / "passwd").read_text():
            words = ["useradd", "-m", "-u", str(number), "-s", "/bin/bash", name]
            subprocess.run([program("chroot"), str(self._root), *words], check=True, capture_output=True)

    def write(self, name: str, text: str, mode: int) -> None:
        """Writes a file of root's on the pool's machine."""
        path = self._root / name
        path.unlink(missing_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def close(self) -> None:
        """Ends the daemons, and with them all that they started."""
        if self._process is not None:
            with suppress(OSError, subprocess.SubprocessError):
                self.call(["condor_rm", "-all"], Path("/"), timeout_s=20)
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGQUIT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _prepare(self) -> None:
        """Writes the configuration and makes the user."""
        text = CONFIGURATION.format(port=free_port(), slots=SLOTS)
        self.write("etc/condor/config.d/99-test.conf", text, 0o644)
        # The interpreter may lie in the home of root.
        (self._root / "root").chmod(0o755)
        self.add_user(USER, USER_NUMBER)

    def _has_slots(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._logs()
        try:
            done = self.call(["condor_status", "-af", "Name"], Path("/"), timeout_s=20)
            submits = self.call(["condor_q", "-totals"], Path("/"), timeout_s=20)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == submits.returncode == 0 and bool(done.stdout.strip())

    def _wait_for(self, happened: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + START_TIMEOUT_S
        while not happened():
            assert time.monotonic() < end_s, f"{what} did not come: {self._logs()}"
            time.sleep(0.2)

    def _logs(self) -> str:
        logs = [self.folder / "master.log", *(self._root / "var" / "log" / "condor").glob("*Log")]
        return "\n".join(f"{one.name}: {one.read_text(errors='replace')[-1500:]}" for one in logs if one.exists())
