"""Metrics for OpenTelemetry: sent to a collector by OTLP over HTTP, encoded as JSON.

The form is that of ``ExportMetricsServiceRequest`` in opentelemetry-proto 1.x, by the JSON mapping of protobuf: numbers
of 64 bits are texts. See "OTLP/HTTP" in the specification of OpenTelemetry.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from http.client import HTTPException
from urllib.parse import unquote, urlsplit

from branchline.base.limits import OTLP_INTERVAL_S, OTLP_WAIT_S
from branchline.base.texts import print_line
from branchline.control.faults import trouble_of
from branchline.control.metrics import COUNTER, Metric, MetricValue, metrics_of
from branchline.control.room import ControlRoom
from branchline.errors import OptionError

#: The variable with headers, as ``api-key=abc,other=x``; that of OpenTelemetry's own exporters.
HEADERS = "OTEL_EXPORTER_OTLP_HEADERS"
_CUMULATIVE = 2
_PATH = "/v1/metrics"
_UNITS = {"bytes": "By", "seconds": "s"}


@dataclass(frozen=True)
class Resource:
    """What the metrics are of, by the names of OpenTelemetry's conventions."""

    attributes: dict[str, str] = field(default_factory=dict)


def encoded(metrics: Iterable[Metric], resource: Resource, since_ns: int, now_ns: int) -> bytes:
    """Metrics as the body of a request; counters count from ``since_ns`` on (nanoseconds since 1970)."""
    request = {
        "resourceMetrics": [
            {
                "resource": {"attributes": _attributes(resource.attributes)},
                "scopeMetrics": [
                    {"scope": {"name": "branchline"}, "metrics": [_metric(one, since_ns, now_ns) for one in metrics]}
                ],
            }
        ]
    }
    return json.dumps(request, separators=(",", ":")).encode("utf-8", errors="replace")


def _metric(metric: Metric, since_ns: int, now_ns: int) -> dict[str, object]:
    times = {"startTimeUnixNano": str(since_ns), "timeUnixNano": str(now_ns)}
    points = [{"attributes": _attributes(one.labels), **times, **_value(one)} for one in metric.readings]
    found: dict[str, object] = {"name": metric.name, "description": metric.help, "unit": _UNITS.get(metric.unit, "1")}
    if metric.kind == COUNTER:
        found["sum"] = {"dataPoints": points, "aggregationTemporality": _CUMULATIVE, "isMonotonic": True}
    else:
        found["gauge"] = {"dataPoints": points}
    return found


def _value(reading: MetricValue) -> dict[str, object]:
    whole = int(reading.value)
    return {"asInt": str(whole)} if whole == reading.value else {"asDouble": float(reading.value)}


def _attributes(labels: dict[str, str]) -> list[dict[str, object]]:
    return [
        {"key": key, "value": {"stringValue": value.encode(errors="replace").decode()}} for key, value in labels.items()
    ]


def endpoint_of(url: str) -> str:
    """Where metrics are sent of a collector's address. Raises OptionError for what is none."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query or parts.fragment:
        hint = f"write it like http://collector.example.org:4318; secrets stand in {HEADERS}"
        raise OptionError(f"{url!r:.200} is no address of a collector", hint=hint)
    return url if parts.path.endswith(_PATH) else f"{url.rstrip('/')}{_PATH}"


def headers_in(text: str) -> dict[str, str]:
    """Headers in a text like ``api-key=abc,other=x``, whose values are percent-encoded. Raises OptionError."""
    pairs = [one.partition("=") for one in text.split(",") if one.strip()]
    if not all(separator and name.strip().replace("-", "").isalnum() for name, separator, _ in pairs):
        raise OptionError(f"{HEADERS} is not written like name=value,name=value")
    headers = {name.strip(): unquote(value.strip()) for name, _, value in pairs}
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable()):
            raise OptionError(f"{HEADERS} has characters in {name} that no header can have")
    return headers


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The headers, which may have a secret, go to no other server."""

    def redirect_request(self, *_: object) -> None:
        """None: the answer is an error then."""


_OPENER = urllib.request.build_opener(_NoRedirects)


class OtlpExporter:
    """A thread that sends the metrics of a room to a collector once a minute. A failure is told when it begins."""

    def __init__(self, room: ControlRoom, url: str, resource: Resource) -> None:
        """Raises OptionError for an address or headers that cannot be."""
        self._room = room
        self._endpoint = endpoint_of(url)
        self._headers = headers_in(os.environ.get(HEADERS, ""))
        self._resource = resource
        self._since_ns = time.time_ns()
        self._trouble = ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep_sending, name="branchline-otlp", daemon=True)

    @property
    def trouble(self) -> str:
        """Why the last ones were not taken; empty if they were."""
        return self._trouble

    def start(self) -> None:
        """Begins; what fails is a trouble of the room."""
        self._room.other_parts["metrics"] = lambda: self._trouble
        self._thread.start()

    def stop(self) -> None:
        """Ends, without waiting for a collector that is silent."""
        self._end.set()

    def send(self) -> None:
        """Sends all metrics as they are now. Raises OSError, DatabaseError; HTTPException for what speaks no HTTP."""
        body = encoded(metrics_of(self._room), self._resource, self._since_ns, time.time_ns())
        headers = {"Content-Type": "application/json", **self._headers}
        request = urllib.request.Request(self._endpoint, body, headers, method="POST")  # noqa: S310 - http or https
        try:
            _OPENER.open(request, timeout=OTLP_WAIT_S).close()
        except urllib.error.HTTPError as error:
            error.close()
            raise

    def _keep_sending(self) -> None:
        pause_s = 0.0
        while not self._end.wait(pause_s):
            pause_s = OTLP_INTERVAL_S
            try:
                self.send()
                self._trouble = ""
            except Exception as error:  # noqa: BLE001 - whatever it is, the next metrics may be taken
                self._say(error)

    def _say(self, error: Exception) -> None:
        if isinstance(error, OSError):
            why = str(error)
        elif isinstance(error, HTTPException):
            why = f"what answers does not speak HTTP ({type(error).__name__}); it does at port 4318 most often"
        else:
            why = trouble_of(error, "metrics")
        trouble = f"metrics are not taken at {self._endpoint}: {why}"
        if trouble != self._trouble:
            print_line(trouble, sys.stderr)
        self._trouble = trouble
