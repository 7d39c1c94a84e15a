"""A real Slurm with three nodes on this machine: munged, slurmctld and three slurmd on free ports of the loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.stores.servers import Process, free_port, free_ports, program

NODES = ("n1", "n2", "n3")
NODE_CPUS = 2
CALL_TIMEOUT_S = 30
# Jobs that are cancelled have so long to leave before their daemons are ended.
LEAVE_TIMEOUT_S = 20

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/spool.%n
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=2
SlurmdTimeout=30
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
NodeName={nodes} NodeHostname=localhost NodeAddr=127.0.0.1 Port=[{ports}] CPUs={cpus} RealMemory=4000
PartitionName=short Nodes={nodes} Default=YES MaxTime=60 State=UP
PartitionName=long Nodes={nodes} MaxTime=600 State=UP
"""


class Slurm:
    """Starts and ends the daemons; ``environment`` is what Slurm's commands need to find them."""

    def __init__(self, settings: str = "") -> None:
        """``settings`` are further lines of the configuration."""
        self._settings = settings
        self.folder = Path(tempfile.mkdtemp(prefix="branchline-slurm-"))
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._processes: list[Process] = []
        self._slurmd: dict[str, Process] = {}
        program("sbatch")

    def start(self) -> None:
        """Returns when all nodes are idle."""
        for name in ("state", *(f"spool.{node}" for node in NODES)):
            (self.folder / name).mkdir()
        self.folder.chmod(0o755)
        ports = free_ports(len(NODES))
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                host=socket.gethostname().split(".")[0],
                folder=self.folder,
                controller_port=free_port(),
                nodes=f"n[1-{len(NODES)}]",
                ports=f"{ports[0]}-{ports[-1]}",
                cpus=NODE_CPUS,
            )
            + self._settings
        )
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("key", "pid", "log", "seed")]
        socket_path = self.folder / "munge.socket"
        self._start([program("munged"), "--foreground", "--force", f"--socket={socket_path}", *files], "munge")
        self._wait_for(socket_path.exists, "munged")
        self._controller = self._start([program("slurmctld"), "-D", "-f", self.environment["SLURM_CONF"]], "slurmctld")
        for node in NODES:
            self.start_node(node)
        self._wait_for(lambda: set(self.node_states().values()) == {"idle"}, "the nodes")

    def start_node(self, node: str) -> None:
        """Starts the daemon of a node."""
        words = [program("slurmd"), "-D", "-N", node, "-f", self.environment["SLURM_CONF"]]
        self._slurmd[node] = self._start(words, f"slurmd.{node}")

    def node_states(self) -> dict[str, str]:
        """The nodes that the controller knows, with their states."""
        done = self._call("sinfo", "--noheader", "--Node", "--format=%N %T", "--partition=short")
        return dict(line.split() for line in done.stdout.splitlines())

    def command(self, *words: object) -> str:
        """What one of Slurm's commands prints."""
        done = self._call(*words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def drained(self) -> Iterator[None]:
        """All nodes are drained: jobs wait."""
        nodes = f"nodename={','.join(NODES)}"
        self.command("scontrol", "update", nodes, "state=drain", "reason=test")
        try:
            yield
        finally:
            self.command("scontrol", "update", nodes, "state=resume")

    @contextmanager
    def controller_paused(self) -> Iterator[None]:
        """The controller accepts connections and does not answer."""
        self._controller.pause()
        try:
            yield
        finally:
            self._controller.go_on()

    def close(self) -> None:
        """Ends the jobs, then the daemons."""
        with suppress(OSError, subprocess.SubprocessError):
            self._call("scancel", "--user=root", "--signal=KILL", "--full")
            self._call("scancel", "--user=root")
            end_s = time.monotonic() + LEAVE_TIMEOUT_S
            while self._call("squeue", "--noheader").stdout.strip() and time.monotonic() < end_s:
                time.sleep(0.2)
        for process in reversed(self._processes):
            process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _call(self, *words: object) -> subprocess.CompletedProcess[str]:
        first, *others = map(str, words)
        return subprocess.run(
            [program(first), *others],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=CALL_TIMEOUT_S,
            check=False,
        )

    def _start(self, words: list[str], name: str) -> Process:
        process = Process(words, lambda: True, self.folder / f"{name}.out", self.environment)
        self._processes.append(process)
        process.start()
        return process

    def _wait_for(self, happened: Callable[[], bool], what: str) -> None:
        end_s = time.monotonic() + CALL_TIMEOUT_S
        while not happened():
            assert time.monotonic() < end_s, f"{what} did not come: {self._logs()}"
            time.sleep(0.05)

    def _logs(self) -> str:
        logs = [*self.folder.glob("*.log"), *self.folder.glob("*.out")]
        return "\n".join(f"{one.name}: {one.read_text(errors='replace')[-1500:]}" for one in sorted(logs))
