"""A Dask cluster as a pool of workers. Workers may join and leave at any time; at first, there may be no workers.

This module also contains the functions that run on Dask workers. A worker reports to the scheduler which group it
starts.
"""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from distributed import Client, Future, KilledWorker, get_worker
from distributed import wait as wait_for_futures
from distributed.client import FutureCancelledError
from distributed.comm.addressing import get_address_host
from distributed.deploy.cluster import Cluster
from distributed.utils import sync

from branchline.base.limits import (
    RELEASE_WAIT_S,
    RESULT_WAIT_S,
    SCHEDULER_CONNECT_S,
    SCHEDULER_LOOK_INTERVAL_S,
    SCHEDULER_SILENT_S,
    VERSIONS_ASKED_MAX,
    VERSIONS_WAIT_S,
)
from branchline.errors import OptionError
from branchline.jobs.pools.agent import cancel_group, end_agents, stop_agents, work_on_group
from branchline.jobs.pools.pool import Begun, DaskCluster, Done, GroupResult, PoolError, SubJobGroup
from branchline.jobs.program import Versions
from branchline.jobs.sites import Spot, is_among, own_spot


class DaskPool:
    """Submits each group as a task of a Dask client.

    The client is created if a scheduler address or a cluster is given.
    """

    one_at_a_time = True

    def __init__(self, target: Client | DaskCluster | str) -> None:
        """Create the pool; ``target`` may be a ``distributed.Client``, an object with ``get_client()`` or a scheduler
        address.
        """
        self._target = target
        self._client: Client | None = None
        self._is_ours = not isinstance(target, Client)
        self._run_id = ""
        self._futures: dict[int, Future] = {}
        self._events: queue.SimpleQueue[tuple[int, Future | str]] = queue.SimpleQueue()
        # By group number: the worker that last started the group, and the start time.
        self._begun: dict[int, tuple[str, float]] = {}
        # By group number: the time since which the group's result could not be fetched.
        self._unfetched_since_s: dict[int, float] = {}
        # By group number: the group and the only workers that may run it.
        self._restricted: dict[int, tuple[SubJobGroup, frozenset[str]]] = {}
        self._threads: dict[str, int] = {}
        # _spots are the locations of the workers. _asked_for_spots are the workers that have not answered yet.
        self._spots: dict[str, Spot] = {}
        self._asked_for_spots: set[str] = set()
        self._is_opening = True
        self._trouble: PoolError | None = None
        self._heard_s = time.monotonic()
        self._is_closed = threading.Event()
        self._submitted_count = 0
        # Workers that cannot run the job.
        self._excluded: set[str] = set()

    @property
    def name(self) -> str:
        """The scheduler's address, for messages."""
        if isinstance(self._target, str):
            return self._target
        scheduler = getattr(self._client, "scheduler", None)
        return str(getattr(scheduler, "address", f"the {type(self._target).__name__}"))

    def open(self, run_id: str) -> None:
        """Connect to the scheduler; workers may join later."""
        self._run_id = run_id
        self._client = self._connected()
        self._look()
        self._is_opening = False
        self._check_versions(self._client)
        self._client.subscribe_topic(topic_of(run_id), self._on_event)
        self._heard_s = time.monotonic()
        threading.Thread(target=self._keep_looking, name="branchline-dask-watch", daemon=True).start()

    def _connected(self) -> Client:
        client = self._target
        if not isinstance(client, Client):
            try:
                client = self._new_client(client)
            except Exception as error:  # a cluster of any package may raise anything
                what = f"cannot connect to the Dask scheduler at {self.name}: {error}"
                hint = "start it or correct the address"
                if isinstance(error, TypeError) and "ssl_context" in str(error):
                    hint = "set the certificates in Dask's configuration (distributed.comm.tls), or pass a client"
                raise PoolError(what, hint=hint, retry=True) from error
        if not isinstance(client, Client):
            raise PoolError(f"get_client() of {self.name} returned no Dask client", hint="pass a distributed.Client")
        if client.asynchronous:
            raise PoolError("this Dask client is asynchronous", hint="pass a client created with asynchronous=False")
        return client

    def _new_client(self, target: DaskCluster | str) -> Client:
        """Return a client of a cluster or for an address. A client that the cluster may share with others stays open,
        and the default client stays the same.
        """
        if isinstance(target, str | Cluster):
            return Client(target, timeout=SCHEDULER_CONNECT_S, set_as_default=False)
        # dask-gateway creates a client for each call, and otherwise closes it only with the cluster.
        self._is_ours = "set_as_default" in inspect.signature(target.get_client).parameters
        return target.get_client(**{"set_as_default": False} if self._is_ours else {})

    def _check_versions(self, client: Client) -> None:
        """Check the versions of Python and Branchline on idle workers. Busy workers check them at their first group."""
        addresses = list(self._threads)[:VERSIONS_ASKED_MAX]
        asked = {
            one: client.submit(
                Versions, workers=[one], pure=False, priority=10, key=f"branchline-versions-{number}-{self._run_id}"
            )
            for number, one in enumerate(addresses)
        }
        if not asked:
            return
        with suppress(TimeoutError), client.as_current():
            wait_for_futures(list(asked.values()), timeout=VERSIONS_WAIT_S)
        for address, future in asked.items():
            if future.status == "error":
                what = f"the worker {address} cannot run Branchline: {future.exception()}"
                raise PoolError(what, hint="install the same version of branchline[cluster] on it")
            difference = future.result().difference_from(Versions()) if future.status == "finished" else ""
            if difference:
                what = f"the worker {address} has {difference}"
                raise PoolError(what, hint="install the same versions on both sides")
        client.cancel(list(asked.values()))

    def slots(self) -> Mapping[Spot, int]:
        """Return the number of groups that the workers accept at the same time, by the location of the workers.

        A worker accepts one group per thread, but runs the groups one after another, each with all threads of the
        worker. A worker is left out until it has reported its location.
        """
        self._check()
        # Resubmit a group to any worker if all workers to which it was restricted have left.
        for number, (group, addresses) in list(self._restricted.items()):
            if addresses.isdisjoint(self._threads):
                del self._restricted[number]
                if number in self._futures:
                    self._futures.pop(number).cancel()
                    self.submit(replace(group, site=None), frozenset())
        slots: dict[Spot, int] = {}
        for address, threads in self._threads.items():
            if (spot := self._spots.get(address)) is not None:
                slots[spot] = slots.get(spot, 0) + threads
        return slots

    def nodes(self) -> set[str]:
        """Return the host names of the workers."""
        return {host_of(address) for address in list(self._threads)}

    def _check(self) -> None:
        silent_s = time.monotonic() - self._heard_s
        if self._client is None:
            return
        if self._trouble is not None:
            raise self._trouble
        if self._client.status not in ("running", "connecting") or silent_s > SCHEDULER_SILENT_S:
            raise self._gone()

    def _gone(self) -> PoolError:
        what = f"lost the connection to the Dask scheduler at {self.name}"
        return PoolError(what, hint="finished sub-jobs are kept; rerun when it is back", retry=True)

    def _look(self) -> None:
        assert self._client is not None
        threads = {one: count for one, count in self._client.nthreads().items() if one not in self._excluded}
        self._spots = {address: spot for address, spot in self._spots.items() if address in threads}
        self._threads = threads
        self._heard_s = time.monotonic()
        if unknown := threads.keys() - self._spots.keys() - self._asked_for_spots:
            self._asked_for_spots |= unknown
            # Workers are asked in a thread, because a hung worker never answers.
            asking = _started(lambda: self._ask_for_spots(list(unknown)))
            if self._is_opening:
                asking.join(VERSIONS_WAIT_S)

    def _ask_for_spots(self, addresses: list[str]) -> None:
        assert self._client is not None
        try:
            for address, spot in self._client.run(own_spot, workers=addresses, on_error="return").items():
                if isinstance(spot, OptionError):
                    self._trouble = PoolError(f"the worker {address}: {spot}", hint=spot.hint)
                # If a worker answers with an error, its location is unknown.
                self._spots[address] = spot if isinstance(spot, Spot) else Spot()
        finally:
            self._asked_for_spots -= set(addresses)

    def _keep_looking(self) -> None:
        while not self._is_closed.wait(SCHEDULER_LOOK_INTERVAL_S):
            try:
                self._look()
            except Exception:  # noqa: BLE001, S112 - a lasting outage is detected by the silence timeout
                continue

    def submit(self, group: SubJobGroup, avoided: frozenset[str]) -> None:
        """Submit a group as a task with a unique key; Dask resubmits it if its worker dies."""
        assert self._client is not None
        self._submitted_count += 1
        key = f"branchline-group-{self._run_id}-{group.number}-{self._submitted_count}"
        # Dask runs the group only on these workers, even if another worker is idle, because Dask does not know about
        # sites.
        addresses = self._chosen(group.site, avoided)
        # Workers that hold the input files are only preferred: an idle worker elsewhere may also run the group.
        near = frozenset() if addresses or group.site is not None or avoided else self._at(group.hosts)
        future = self._client.submit(
            work_on_dask_group,
            group,
            key=key,
            pure=False,
            retries=0,
            workers=sorted(addresses or near) or None,
            allow_other_workers=bool(near),
        )
        if addresses:
            self._restricted[group.number] = (group, addresses)
        self._futures[group.number] = future
        future.add_done_callback(partial(self._on_done, group.number))

    def _chosen(self, site: str | None, avoided: frozenset[str]) -> frozenset[str]:
        """Return the workers that may run a group, or an empty set if any worker may.

        If all workers at the group's site are on avoided hosts, workers at other sites are chosen.
        """
        is_choice = bool(avoided or self._excluded)
        if site is None and not is_choice:
            return frozenset()
        good = {one for one in self._threads if host_of(one) not in avoided}
        spots = self._spots
        near = {one for one in good if site is not None and one in spots and spots[one].site == site}
        return frozenset(near or (good if is_choice else ()))

    def _at(self, hosts: Sequence[str]) -> frozenset[str]:
        """Return the workers on the given hosts, matched by host name or by the host in the worker's address."""
        if not hosts:
            return frozenset()
        spots = self._spots
        named = {address: {host_of(address), spots[address].host} for address in self._threads if address in spots}
        return frozenset(address for address, names in named.items() if any(is_among(one, hosts) for one in names))

    def exclude(self, address: str) -> bool:
        """Exclude a worker, and return whether any worker is left. Groups restricted to this worker are resubmitted
        later.
        """
        self._excluded.add(address)
        self._threads = {one: count for one, count in self._threads.items() if one != address}
        return bool(self._threads)

    def begun(self, number: int) -> Begun | None:
        """Return when a worker reported the group's start, and its host; None if no worker has reported it."""
        begun = self._begun.get(number)
        return None if begun is None else Begun(begun[1], host_of(begun[0]))

    def _on_done(self, number: int, future: Future) -> None:
        self._events.put((number, future))

    def _on_event(self, event: tuple[float, dict[str, str]]) -> None:
        _, message = event
        self._events.put((int(message["number"]), message["worker"]))

    def done(self, timeout_s: float) -> Iterator[Done]:
        """Yield the groups that finish within the timeout, and the groups that Dask has restarted."""
        try:
            number, event = self._events.get(timeout=timeout_s)
            while True:
                yield from self._done(number, event)
                number, event = self._events.get_nowait()
        except queue.Empty:
            return

    def _done(self, number: int, event: Future | str) -> Iterator[Done]:
        if number not in self._futures:
            return
        if isinstance(event, str):
            before = self._begun.get(number)
            self._begun[number] = (event, time.monotonic())
            if before is not None:
                has_left = self._has_left(before[0])
                yield Done(number, begun_again_at=event, node=host_of(before[0]), has_left=has_left)
            return
        if event is not self._futures[number]:
            return  # superseded by a resubmission
        done = self._result_of(number, event)
        if done is None:
            return
        del self._futures[number]
        self._restricted.pop(number, None)
        self._begun.pop(number, None)
        self._unfetched_since_s.pop(number, None)
        yield done

    def _result_of(self, number: int, future: Future) -> Done | None:
        """Return the outcome of a group, or None if fetching the result failed and will be retried."""
        address, _ = self._begun.get(number, ("", 0.0))
        try:
            return Done(number, future.result(timeout=RESULT_WAIT_S))
        except KilledWorker as error:
            return Done(number, error=error, worker_died=True, node=host_of(address) if address else "")
        except FutureCancelledError as error:
            raise self._gone() from error
        except Exception as error:  # noqa: BLE001 - Dask re-raises any exception of the task
            if self._may_fetch_again(number, future, error):
                again = threading.Timer(SCHEDULER_LOOK_INTERVAL_S, self._events.put, [(number, future)])
                again.daemon = True
                again.start()
                return None
            return Done(number, error=error)

    def _may_fetch_again(self, number: int, future: Future, error: Exception) -> bool:
        """Return whether to fetch a result again. This requires that the connection failed, not the task, and that the
        first attempt to fetch the result failed less than ``SCHEDULER_SILENT_S`` ago.
        """
        if future.status == "error" or not isinstance(error, OSError) or isinstance(error, TimeoutError):
            return False
        now_s = time.monotonic()
        return now_s - self._unfetched_since_s.setdefault(number, now_s) < SCHEDULER_SILENT_S

    def _has_left(self, address: str) -> bool:
        """Return whether a worker left gracefully, for example at the end of its lifetime or because the cluster scaled
        down.
        """
        client, found = self._client, list[tuple[float, dict[str, str]]]()
        if client is not None:
            _in_time(lambda: found.extend(client.get_events(address)))
        removals = [event for _, event in found if event.get("action") == "remove-worker"]
        return bool(removals) and bool(removals[-1].get("expected"))

    def cancel(self, number: int) -> None:
        """Cancel a group whose result is no longer needed."""
        future = self._futures.pop(number, None)
        self._restricted.pop(number, None)
        address, _ = self._begun.pop(number, ("", 0.0))
        client, run_id = self._client, self._run_id
        if future is not None and client is not None:
            client.cancel([future])
        if client is not None and address in self._threads:
            # Dask does not interrupt a running task.
            _started(lambda: client.run(cancel_group, run_id, number, workers=[address], on_error="ignore"))

    def stop(self) -> None:
        """Ask all workers to stop, in the background because some may not answer."""
        self._on_all_workers(stop_agents)

    def close(self) -> None:
        """Cancel the remaining groups and release the workers. A client that the caller passed stays open."""
        self._is_closed.set()
        client = self._client
        if client is None:
            return
        futures = list(self._futures.values())
        self._futures.clear()
        if client.status == "running":
            _in_time(lambda: client.cancel(futures))
            _in_time(lambda: client.unsubscribe_topic(topic_of(self._run_id)))
            self._on_all_workers(end_agents).join(RELEASE_WAIT_S)
        if self._is_ours:
            _in_time(lambda: client.close(timeout=RELEASE_WAIT_S))

    def _on_all_workers(self, function: Callable[[str], None]) -> threading.Thread:
        client, run_id = self._client, self._run_id
        assert client is not None
        return _started(lambda: client.run(function, run_id, on_error="ignore"))


def _started(action: Callable[[], object]) -> threading.Thread:
    def act() -> None:
        with suppress(Exception):  # a worker that does not answer is shutting down
            action()

    thread = threading.Thread(target=act, name="branchline-dask", daemon=True)
    thread.start()
    return thread


def _in_time(action: Callable[[], object]) -> None:
    """Run an action in the background, and wait at most ``RELEASE_WAIT_S`` for it to finish."""
    _started(action).join(RELEASE_WAIT_S)


# --- on a worker of Dask ----------------------------------------------------------------------------------------------


def work_on_dask_group(group: SubJobGroup) -> GroupResult:
    """Run a group with all threads of this Dask worker.

    The worker first reports that it starts the group: if it dies, Dask restarts the group on another worker without
    telling the job.
    """
    worker = get_worker()
    # Sent before the work starts, so that the job knows the worker even if the worker dies immediately.
    message = {"number": group.number, "worker": worker.address}
    with suppress(OSError):  # the job itself detects a lost scheduler
        sync(worker.loop, worker.scheduler.log_event, topic=topic_of(group.settings.run), msg=message)
    memory_limit_bytes = worker.memory_manager.memory_limit or None
    result = work_on_group(replace(group, threads=worker.state.nthreads, memory_limit_bytes=memory_limit_bytes))
    return replace(result, node=host_of(worker.address), address=worker.address)


def topic_of(run_id: str) -> str:
    """Return the Dask event topic under which a run's workers report the groups that they start."""
    return f"branchline-{run_id}"


def host_of(address: str) -> str:
    """Return the host in a worker's address."""
    return str(get_address_host(address))
