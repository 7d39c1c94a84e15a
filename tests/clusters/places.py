"""The places that every check is run at: real processes on the loopback, ended by their own id."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.slurm import Slurm
from tests.local_dask import local_cluster
from tests.stores.servers import Process, free_port


@dataclass(frozen=True)
class PlaceHere:
    """A place to check. ``settings`` go to ``branchline.run``; ``has_processes`` that wagons run in others; and
    ``revives`` that it starts another worker where one was killed from outside.
    """

    settings: dict[str, Any]
    has_processes: bool = True
    revives: bool = False
    servers: dict[str, Process] = field(default_factory=dict)


def in_this_process(_folder: Path) -> Iterator[PlaceHere]:
    yield PlaceHere({"workers": 0}, has_processes=False)


def local_processes(_folder: Path) -> Iterator[PlaceHere]:
    yield PlaceHere({"workers": 2})


def threads(_folder: Path) -> Iterator[PlaceHere]:
    with ThreadPoolExecutor(2) as executor:
        yield PlaceHere({"on": executor})


def processes(_folder: Path) -> Iterator[PlaceHere]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield PlaceHere({"on": executor})


def dask_cluster(folder: Path) -> Iterator[PlaceHere]:
    settings: dict[str, Any] = {
        "threads_per_worker": 1,
        "dashboard_address": "127.0.0.1:0",
        "local_directory": str(folder),
    }
    with local_cluster(2, **settings) as cluster:
        yield PlaceHere({"on": cluster}, revives=True)


def parsl_pool(folder: Path) -> Iterator[PlaceHere]:
    from parsl import Config
    from parsl.concurrent import ParslPoolExecutor
    from parsl.executors import HighThroughputExecutor
    from parsl.providers import LocalProvider

    workers = HighThroughputExecutor(
        address="127.0.0.1", max_workers_per_node=2, heartbeat_period=1, provider=LocalProvider()
    )
    config = Config([workers], run_dir=str(folder / "runinfo"), initialize_logging=False)
    with pytest.MonkeyPatch.context() as patch:
        # Parsl finds its own commands in PATH.
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        with ParslPoolExecutor(config) as executor:
            yield PlaceHere({"on": executor}, revives=True)


def dask_over_tcp(folder: Path) -> Iterator[PlaceHere]:
    with dask_servers(folder, workers=2) as place:
        yield place


@contextmanager
def dask_servers(
    folder: Path, workers: int, sites: Sequence[str] = (), hosts: Sequence[str] = (), packages: Sequence[Path] = ()
) -> Iterator[PlaceHere]:
    """A scheduler and workers that were started by Dask's own commands, each at a site if there are ``sites``, on a
    host if there are ``hosts``, and with a folder of packages of its own if there are ``packages``. The host is in the
    environment of a worker as HOST_OF_WORKER.
    """
    address = f"127.0.0.1:{free_port()}"
    host, port = address.split(":")
    with ExitStack() as stack:
        servers: dict[str, Process] = {}

        def start(name: str, ready: int | Callable[[], bool], *arguments: str, **environment: str) -> None:
            words = [sys.executable, "-m", "distributed.cli.dask_" + name.partition("-")[0], *arguments]
            log = folder / f"{name}.log"
            server = Process(words, ready, log, environment)
            stack.callback(server.kill)
            server.start()
            servers[name] = server

        start(
            "scheduler", int(port), "--host", host, "--port", port, "--dashboard-address", "127.0.0.1:0", "--no-jupyter"
        )
        for number in range(workers):
            own = hosts[number] if hosts else host
            arguments = [f"tcp://{address}", "--host", own, "--nthreads", "1", "--no-dashboard"]
            arguments += ["--local-directory", str(folder), "--name", f"w{number}"]
            site = sites[number] if sites else ""
            environment = {"BRANCHLINE_SITE": site, "HOST_OF_WORKER": own}
            if packages:
                environment["PYTHONPATH"] = str(packages[number])
            start(f"worker-{number}", lambda: True, *arguments, **environment)
        yield PlaceHere({"on": f"dask=tcp://{address}"}, revives=True, servers=servers)


def slurm_jobqueue(folder: Path, slurm: Slurm) -> Iterator[PlaceHere]:
    """Workers that dask-jobqueue starts as jobs of a Slurm."""
    from dask_jobqueue import SLURMCluster

    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        for name, value in slurm.environment.items():
            patch.setenv(name, value)
        cluster = SLURMCluster(
            cores=1,
            processes=1,
            memory="1GB",
            interface="lo",
            queue="short",
            walltime="00:30:00",
            local_directory=str(folder),
            log_directory=str(folder),
            python=sys.executable,
            scheduler_options={"dashboard_address": "127.0.0.1:0"},
        )
        stack.enter_context(cluster)
        cluster.scale(jobs=2)
        yield PlaceHere({"on": cluster}, revives=True)


PLACES: dict[str, Callable[[Path], Iterator[PlaceHere]]] = {
    "here": in_this_process,
    "local processes": local_processes,
    "threads": threads,
    "processes of an executor": processes,
    "Parsl": parsl_pool,
    "Dask": dask_cluster,
    "Dask over TCP": dask_over_tcp,
}
