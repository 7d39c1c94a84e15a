"""Limits of a storage, beside which an arm stands: what it gives when as many jobs take the same bytes, and no more."""

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

#: The kinds of limits, in the order in which they are told, and what they are.
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
#: Of local files, read by the kernel as it does it best; of a server, with Branchline's own client.
_LOCAL: dict[str, Value] = {"size": "1 MiB"}
_CLIENTS_OF_LIMITS = ("pieces", "bytes")
#: The bare clients by the scheme of URLs.
_BARE = {"root": "xrdcp", "roots": "xrdcp", "http": "curl", "https": "curl", "dav": "curl", "davs": "curl"}


def limit_words(kind: str, *, is_staged: bool) -> str:
    """What a limit is, beside an arm that copies its files first, or does not."""
    return f"copying them first, then {LIMITS[kind]}" if is_staged and kind == BLOCKS else LIMITS[kind]


def limit_settings(settings: JobSettings, kind: str = LIMIT) -> JobSettings | None:
    """What measures a limit of the storage for the jobs of an arm: the same files read whole, at the same time, with
    nothing decoded; with the bare client; or the bare network. None where it cannot be measured, or where the arm is
    just that.
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
    """The arm under whose name a limit of this arm's storage is kept; empty where it has none."""
    if kind == BLOCKS:
        return arm.name
    settings = limit_settings(arm.settings, kind)
    return next((name for name, one in limits_of(arms, kind).items() if one == settings), "") if settings else ""


def limits_of(arms: Sequence[Arm], kind: str = LIMIT) -> dict[str, JobSettings]:
    """What measures each storage's limit, once for all arms that share it, under the name of the first."""
    limits: dict[str, JobSettings] = {}
    for arm in arms:
        settings = limit_settings(arm.settings, kind)
        if settings is not None and settings not in limits.values():
            limits[arm.name] = settings
    return limits


def all_limits(arms: Sequence[Arm], files: Mapping[str, JobFiles]) -> list[tuple[SampleKind, str, JobSettings]]:
    """The kind, the arm's name and the settings of each limit that does not need a trace."""
    whole: tuple[SampleKind, ...] = (LIMIT, CLIENT)
    found = [(kind, name, one) for kind in whole for name, one in limits_of(arms, kind).items()]
    for name, one in limits_of(arms, NETWORK).items():
        size = files[name].size_bytes
        if size:
            options = {**one.options, "bytes": size // one.jobs}
            found.append((NETWORK, name, dataclasses.replace(one, options=options)))
    return found


def files_of_blocks(settings: JobSettings, files: JobFiles) -> JobFiles | None:
    """The local files on which the ranges that an arm's jobs read are repeated: its own, also where jobs copy them
    first, or those behind a server of ours. None where they are not known for sure, or have other sizes.
    """
    if settings.stage or not files.is_remote:
        return files
    known = counterparts([one for names in files.of_jobs for one in names], files.local)
    behind = [[known[one] for one in names] for names in files.of_jobs]
    jobs = [[one for one in names if one is not None] for names in behind]
    if jobs != behind or tuple(sum(map(os.path.getsize, names)) for names in jobs) != files.job_bytes:
        return None
    return dataclasses.replace(files, of_jobs=jobs)
