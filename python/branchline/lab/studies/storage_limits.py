"""Limits of storage, to which arms are compared: the throughput if the same number of jobs only read the bytes."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Final

from branchline.lab.sampling.bare_network import host_of, own_address
from branchline.lab.sampling.samples import SampleKind
from branchline.lab.sampling.study_files import JobFiles
from branchline.lab.sampling.traces import counterparts
from branchline.lab.study import Arm, JobSettings, Value
from branchline.reading.locations import is_url

#: The kinds of limits in display order, and their descriptions.
LIMIT: Final = "limit"
CLIENT: Final = "client"
NETWORK: Final = "network"
BLOCKS: Final = "blocks"
LIMITS = {
    LIMIT: "whole files, nothing decoded",
    CLIENT: "bare client, whole files",
    NETWORK: "bare network, as many bytes over a socket",
    BLOCKS: "raw disk, the same ranges one after another",
}
#: Options for local files, which are read sequentially by the kernel. Remote files are read by Branchline's own client.
_LOCAL: dict[str, Value] = {"size": "1 MiB"}
_CLIENTS_OF_LIMITS = ("pieces", "bytes")
#: The bare client for each URL scheme.
_BARE = {"root": "xrdcp", "roots": "xrdcp", "http": "curl", "https": "curl", "dav": "curl", "davs": "curl"}


def limit_words(kind: str, *, is_staged: bool) -> str:
    """Return the description of a limit for an arm. With ``is_staged``, the arm copies its files first."""
    return f"copying them first, then {LIMITS[kind]}" if is_staged and kind == BLOCKS else LIMITS[kind]


def limit_settings(settings: JobSettings, kind: str = LIMIT) -> JobSettings | None:
    """Return the settings that measure a limit of the storage for the jobs of an arm. None if the limit cannot be
    measured or is the arm itself.

    Depending on ``kind``, jobs read the same files completely and concurrently without decoding, copy them with the
    bare client, or receive bytes over the bare network.
    """
    if settings.client == "command":
        return None
    is_local = not any(is_url(one) for one in settings.where)
    client, options = ("pieces", dict(_LOCAL)) if is_local else ("bytes", {})
    if kind == LIMIT and settings.client in _CLIENTS_OF_LIMITS:
        return None
    if kind == CLIENT:
        schemes = {one.partition("://")[0] for one in settings.where}
        if settings.client == "copy" or not all(shutil.which(_BARE.get(one, "")) for one in schemes):
            return None
        client, options = "copy", {}
    elif kind == NETWORK:
        hosts = {host_of(one) for one in settings.where}
        if len(hosts) > 1 or not own_address(host := hosts.pop()):
            return None
        client, options = "socket", {"host": host}
    return dataclasses.replace(
        settings, client=client, options=options, tree="", branches=(), train="", companions=(), stage=""
    )


def limit_name_of(arm: Arm, arms: Sequence[Arm], kind: str = LIMIT) -> str:
    """Return the name of the arm under which this arm's limit is stored, which may be another arm with the same
    storage; empty without a limit.
    """
    if kind == BLOCKS:
        return arm.name
    settings = limit_settings(arm.settings, kind)
    return next((name for name, one in limits_of(arms, kind).items() if one == settings), "") if settings else ""


def limits_of(arms: Sequence[Arm], kind: str = LIMIT) -> dict[str, JobSettings]:
    """Return the settings that measure each distinct limit once. The keys are names of arms: the first arm that has the
    limit.
    """
    limits: dict[str, JobSettings] = {}
    for arm in arms:
        settings = limit_settings(arm.settings, kind)
        if settings is not None and settings not in limits.values():
            limits[arm.name] = settings
    return limits


def all_limits(arms: Sequence[Arm], files: Mapping[str, JobFiles]) -> list[tuple[SampleKind, str, JobSettings]]:
    """Return the kind, the arm's name and the settings of each limit that can be measured without a trace."""
    whole: tuple[SampleKind, ...] = (LIMIT, CLIENT)
    found = [(kind, name, one) for kind in whole for name, one in limits_of(arms, kind).items()]
    for name, one in limits_of(arms, NETWORK).items():
        size = files[name].size_bytes
        if size:
            options = {**one.options, "bytes": size // one.jobs}
            found.append((NETWORK, name, dataclasses.replace(one, options=options)))
    return found


def files_of_blocks(settings: JobSettings, files: JobFiles) -> JobFiles | None:
    """Return the local files on which the reads of an arm's jobs are repeated: the arm's own files, also if the jobs
    stage them, or the files of a local server. None if the files of the server cannot be identified or have other
    sizes.
    """
    if settings.stage or not files.is_remote:
        return files
    known = counterparts([one for names in files.of_jobs for one in names], files.local)
    behind = [[known[one] for one in names] for names in files.of_jobs]
    jobs = [[one for one in names if one is not None] for names in behind]
    if jobs != behind or tuple(sum(map(os.path.getsize, names)) for names in jobs) != files.job_bytes:
        return None
    return dataclasses.replace(files, of_jobs=jobs)
