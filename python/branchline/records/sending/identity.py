"""Who a job is, for a control room."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from branchline.errors import BranchlineError
from branchline.jobs.sites.spot import own_spot
from branchline.records.sending.message import JobIdentity
from branchline.records.sensors.this_process import host
from branchline.records.sensors.versions import branchline_version


def identity_of(
    kind: str,
    *,
    job: str = "",
    name: str = "",
    command: str = "",
    place: str = "here",
    out: Path | None = None,
    wagons: Iterable[str] = (),
    datasets: Iterable[str] = (),
) -> JobIdentity:
    """That of a job which begins now in this process; ``job`` is its number if it has one already. Without a name it
    has that of its directory of results.
    """
    return JobIdentity(
        job=job or uuid.uuid4().hex,
        kind=kind,
        name=name or (out.absolute().name if out is not None else ""),
        command=command,
        user=_user(),
        host=host(),
        site=_site(),
        place=place,
        out="" if out is None else str(out.absolute()),
        started=datetime.now(UTC).isoformat(),
        branchline=branchline_version(),
        wagons=list(wagons),
        datasets=list(datasets),
    )


def _user() -> str:
    """The user's name; empty where there is none, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _site() -> str:
    try:
        return own_spot().site
    except BranchlineError:  # The job itself refuses a site's file that is wrong.
        return ""
