"""The addresses that a monitoring system asks: metrics, and the files that are made for them."""

from __future__ import annotations

from functools import partial
from importlib.resources import files

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from branchline.control.metrics import metrics_of
from branchline.control.web.routes.metrics_text import (
    OPENMETRICS_TYPE,
    PROMETHEUS_TYPE,
    openmetrics_text,
    prometheus_text,
)

#: Alert rules for Prometheus, and a dashboard for Grafana.
MONITORING_FILES = {"alerts.yml": "application/yaml", "dashboard.json": "application/json"}


def monitoring_routes() -> list[Route]:
    """Their routes."""
    return [
        Route("/metrics", _metrics),
        *(Route(f"/metrics/{name}", partial(_file, name, kind)) for name, kind in MONITORING_FILES.items()),
    ]


async def _metrics(request: Request) -> Response:
    found = await run_in_threadpool(metrics_of, request.app.state.room)
    if "application/openmetrics-text" in request.headers.get("accept", ""):
        return Response(openmetrics_text(found), headers={"Content-Type": OPENMETRICS_TYPE})
    return Response(prometheus_text(found), headers={"Content-Type": PROMETHEUS_TYPE})


async def _file(name: str, kind: str, _: Request) -> Response:
    content = files("branchline.control.web").joinpath("monitoring", name).read_bytes()
    return Response(content, media_type=kind, headers={"Content-Disposition": f'attachment; filename="{name}"'})
