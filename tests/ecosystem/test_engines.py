"""Trains on the workers of Ray and of dask-gateway, which are started on the loopback, and the examples of the
documentation for these and for Parsl, which tests/clusters/test_places.py checks.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil
import pytest
from tests.clusters.conformance import (
    EVENTS_PER_FILE,
    FILES,
    Case,
    a_failing_wagon_is_stopped_alone,
    a_killed_worker_costs_nothing,
    a_killed_worker_of_the_pool_costs_nothing,
    ctrl_c_keeps_what_is_done,
    tables_have_the_rows_of_the_input_in_its_order,
    the_result_is_the_same_bit_for_bit,
)
from tests.clusters.event_files import write_events
from tests.clusters.places import PlaceHere
from tests.conftest import REPOSITORY
from tests.docs.snippets import snippets_of
from tests.stores.servers import Process, free_port

import branchline
from branchline.errors import OptionError
from branchline.jobs.where import where_of
from branchline.trains.demo.demo_files import make_data

# The clients of dask-gateway and Ray raise errors when they are garbage-collected.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CHECKS = (
    the_result_is_the_same_bit_for_bit,
    tables_have_the_rows_of_the_input_in_its_order,
    a_failing_wagon_is_stopped_alone,
    a_killed_worker_costs_nothing,
    a_killed_worker_of_the_pool_costs_nothing,
    ctrl_c_keeps_what_is_done,
)
PAGE = REPOSITORY / "docs" / "guides" / "train-operator.md"
#: Timeout for the end of a server of dask-gateway, with its schedulers and workers.
SERVER_ENDS_S = 30
#: Runs the server of dask-gateway with schedulers and workers as processes of this user.
GATEWAY = """
from dask_gateway_server.backends.local import LocalClusterConfig, UnsafeLocalBackend

c.DaskGateway.backend_class = UnsafeLocalBackend
c.UnsafeLocalBackend.clusters_directory = {folder!r}
c.Proxy.address = "127.0.0.1:{proxy}"
c.Proxy.tcp_address = "127.0.0.1:{proxy}"
c.DaskGateway.address = "127.0.0.1:{server}"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.LocalClusterConfig.scheduler_cmd = [{dask!r}, "scheduler"]
c.LocalClusterConfig.worker_cmd = [{dask!r}, "worker"]
"""


WAGONS = """
import awkward as ak


class Momenta:
    name = "momenta"

    def process(self, events):
        return {"sum": float(ak.sum(events.px)), "events": len(events)}
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files; each becomes a sub-job."""
    folder = tmp_path_factory.mktemp("events")
    write_events(folder, FILES, EVENTS_PER_FILE)
    return folder


@pytest.fixture(autouse=True)
def small_subjobs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    largest_bytes = max(one.stat().st_size for one in data.iterdir())
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest_bytes)


def ray_cluster(folder: Path, stack: ExitStack) -> PlaceHere:
    import ray

    # Sockets of Ray have names of at most 107 characters.
    del folder
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    stack.callback(ray.shutdown)
    return PlaceHere({"on": "ray"}, revives=True)


def gateway_server(folder: Path, stack: ExitStack) -> dict[str, str]:
    """Start a server of dask-gateway, and return the variables that configure its clients."""
    proxy, server = free_port(), free_port()
    commands = Path(sys.executable).parent
    config = folder / "gateway.py"
    config.write_text(GATEWAY.format(folder=str(folder), proxy=proxy, server=server, dask=str(commands / "dask")))

    def answers() -> bool:
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{proxy}/api/health", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    process = Process([str(commands / "dask-gateway-server"), "--config", str(config)], answers, folder / "gateway.log")
    stack.callback(process.kill)
    # A server that is killed leaves its schedulers behind.
    stack.callback(lambda: psutil.wait_procs([psutil.Process(process.pid)], SERVER_ENDS_S))
    stack.callback(lambda: psutil.Process(process.pid).terminate())
    process.start()
    return {
        "DASK_GATEWAY__ADDRESS": f"http://127.0.0.1:{proxy}",
        "DASK_GATEWAY__PROXY_ADDRESS": f"gateway://127.0.0.1:{proxy}",
    }


def gateway_cluster(folder: Path, stack: ExitStack) -> PlaceHere:
    from dask_gateway import Gateway

    address, proxy_address = gateway_server(folder, stack).values()
    gateway = stack.enter_context(Gateway(address, proxy_address))
    cluster = stack.enter_context(gateway.new_cluster())
    cluster.scale(2)
    return PlaceHere({"on": cluster}, revives=True)


ENGINES = {"Ray": ray_cluster, "dask-gateway": gateway_cluster}


@pytest.fixture(scope="module", params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaceHere]:
    """Two workers of an engine."""
    with ExitStack() as stack:
        yield ENGINES[request.param](tmp_path_factory.mktemp("engine"), stack)
    # The engines leave files and connections open, whose ResourceWarning would fail a later test.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_engine(check: object, engine: PlaceHere, data: Path, tmp_path: Path) -> None:
    assert callable(check)
    check(Case(engine, data, tmp_path))


@pytest.mark.parametrize("words", ["ParslPoolExecutor(", "ray.init(", "Gateway()"])
def test_the_example_of_the_documentation_runs(words: str, tmp_path: Path) -> None:
    make_data(tmp_path / "demo-data", files=4, events_per_file=50, seed=1, workers=1)
    (tmp_path / "wagons.py").write_text(WAGONS)
    [example] = [one.text for one in snippets_of(PAGE) if one.kind == "skipped" and words in one.text]
    script = tmp_path / "analysis.py"
    script.write_text(f"{example}\nassert result.exit_code == 0\nprint(result.outputs['momenta'])\n")
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    with ExitStack() as stack:
        if words == "Gateway()":
            environment |= gateway_server(tmp_path, stack)
        done = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
        )
    assert done.returncode == 0, done.stdout + done.stderr
    here = branchline.run(str(tmp_path / "wagons.py"), str(tmp_path / "demo-data/collisions.txt"), workers=0)
    assert done.stdout.splitlines()[-1] == str(here.outputs["momenta"])


def test_the_module_ray_is_refused_with_the_remedy() -> None:
    import ray

    with pytest.raises(OptionError, match=r'a job cannot run on the module ray .*on="ray"'):
        where_of(ray)
