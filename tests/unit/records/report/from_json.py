"""What reports say of a job.json: tests write it down as the dict that the file holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from branchline.records.sensors.record import JobRecord


def of_json(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a record as one of the dict."""
    return lambda job, *rest: function(JobRecord.from_dict(job), *rest)
