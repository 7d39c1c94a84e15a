"""The limit of a storage: its files read whole, by as many jobs at the same time, with nothing decoded."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from branchline.lab.study import Arm, JobSettings, Value
from branchline.locations import is_url

#: Of local files, read by the kernel as it does it best; of a server, with Branchline's own client.
_LOCAL: dict[str, Value] = {"size": "1 MiB"}
_CLIENTS_OF_LIMITS = ("pieces", "bytes")


def limit_settings(settings: JobSettings) -> JobSettings | None:
    """What measures the storage's limit for the jobs of an arm: the same files read whole, at the same time, with
    nothing decoded. None where the files are not known, or where the arm is just that.
    """
    if settings.client in ("command", *_CLIENTS_OF_LIMITS):
        return None
    is_local = not any(is_url(one) for one in settings.where)
    client, options = ("pieces", dict(_LOCAL)) if is_local else ("bytes", {})
    return dataclasses.replace(
        settings, client=client, options=options, tree="", branches=(), train="", companions=(), stage=""
    )


def limit_name_of(arm: Arm, arms: Sequence[Arm]) -> str:
    """The arm under whose name the limit of this arm's storage is kept; empty where it has none."""
    settings = limit_settings(arm.settings)
    return next((name for name, one in limits_of(arms).items() if one == settings), "") if settings else ""


def limits_of(arms: Sequence[Arm]) -> dict[str, JobSettings]:
    """What measures each storage's limit, once for all arms that share it, under the name of the first."""
    limits: dict[str, JobSettings] = {}
    for arm in arms:
        settings = limit_settings(arm.settings)
        if settings is not None and settings not in limits.values():
            limits[arm.name] = settings
    return limits
