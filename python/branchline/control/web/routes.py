"""Routes for programs: job reports, and metrics for monitoring systems.

Metrics are served in the text format of Prometheus (version 0.0.4) or in OpenMetrics 1.0, with alert rules and a
dashboard as files.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from importlib.resources import files

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from branchline.base.limits import REPORT_WAIT_S, RETRY_AFTER_S
from branchline.control.metrics import COUNTER, Metric, metrics_of
from branchline.control.room import ControlRoom
from branchline.control.web.request_limits import plain_body
from branchline.records.sending.message import ReportBatch
from branchline.records.sensors.job_measures import MEASURES_FIELD

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
#: Files for monitoring systems, with media types: alert rules for Prometheus, and a dashboard for Grafana.
MONITORING_FILES = {"alerts.yml": "application/yaml", "dashboard.json": "application/json"}


async def take_report(request: Request) -> Response:
    """Store a batch of job reports.

    In the response, ``taken`` is true for a new batch, and false for a batch that was stored before. The response also
    contains the measures that are in force for the job, if any.
    """
    content = await request.body()
    turns: asyncio.Semaphore = request.app.state.report_turns
    try:
        async with asyncio.timeout(REPORT_WAIT_S):
            await turns.acquire()
    except TimeoutError:
        error = {"error": "too many jobs are reporting at once"}
        return JSONResponse(error, 429, {"Retry-After": str(RETRY_AFTER_S)})
    try:
        answer = await run_in_threadpool(_take, request, content)
    except ValueError as error:
        return JSONResponse({"error": str(error)}, 400)
    finally:
        turns.release()
    return JSONResponse(answer)


def _take(request: Request, content: bytes) -> Mapping[str, object]:
    try:
        plain = json.loads(plain_body(content, request.headers))
    except RecursionError:
        raise ValueError("the batch is nested too deeply") from None
    if not isinstance(plain, dict):
        raise ValueError("the batch is not a JSON object")
    room: ControlRoom = request.app.state.room
    reporter = request.state.person.name if request.app.state.is_shared else ""
    batch = ReportBatch.from_dict(plain)
    taken = room.take(batch, reporter)
    told = room.measures.told(batch.identity.job)
    return {"taken": taken, MEASURES_FIELD: told.as_dict()} if told.in_force else {"taken": taken}


def monitoring_routes() -> list[Route]:
    """Return the routes for the metrics and for the files for monitoring systems."""
    return [
        Route("/metrics", _metrics),
        *(Route(f"/metrics/{name}", partial(_monitoring_file, name, kind)) for name, kind in MONITORING_FILES.items()),
    ]


async def _metrics(request: Request) -> Response:
    found = await run_in_threadpool(metrics_of, request.app.state.room)
    if "application/openmetrics-text" in request.headers.get("accept", ""):
        return Response(openmetrics_text(found), headers={"Content-Type": OPENMETRICS_TYPE})
    return Response(prometheus_text(found), headers={"Content-Type": PROMETHEUS_TYPE})


async def _monitoring_file(name: str, kind: str, _: Request) -> Response:
    content = files("branchline.control.web").joinpath("monitoring", name).read_bytes()
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})


def openmetrics_text(metrics: Iterable[Metric]) -> str:
    """Format metrics as OpenMetrics."""
    return "".join(f"{line}\n" for one in metrics for line in _metric_lines(one, is_open=True)) + "# EOF\n"


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """Format metrics in the Prometheus text format."""
    return "".join(f"{line}\n" for one in metrics for line in _metric_lines(one, is_open=False))


def _metric_lines(metric: Metric, *, is_open: bool) -> Iterator[str]:
    sample = f"{metric.name}_total" if metric.kind == COUNTER else metric.name
    family = metric.name if is_open else sample
    yield f"# TYPE {family} {metric.kind}"
    if is_open and metric.unit:
        yield f"# UNIT {family} {metric.unit}"
    yield f"# HELP {family} {_escaped(metric.help)}"
    for one in metric.readings:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in one.labels.items())
        shown = f"{{{labels}}}" if labels else ""
        value = str(int(one.value)) if one.value == int(one.value) else repr(float(one.value))
        yield f"{sample}{shown} {value}"


def _escaped(text: str) -> str:
    # Names from job reports may contain lone surrogates, which cannot be encoded.
    clean = text.encode(errors="replace").decode()
    return clean.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
