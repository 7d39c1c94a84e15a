"""Metrics as text: the exposition format of Prometheus (version 0.0.4), and OpenMetrics 1.0."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from branchline.control.metrics import COUNTER, Metric, MetricValue

PROMETHEUS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def openmetrics_text(metrics: Iterable[Metric]) -> str:
    """As OpenMetrics."""
    return "".join(f"{line}\n" for one in metrics for line in _lines(one, is_open=True)) + "# EOF\n"


def prometheus_text(metrics: Iterable[Metric]) -> str:
    """As Prometheus' own format."""
    return "".join(f"{line}\n" for one in metrics for line in _lines(one, is_open=False))


def _lines(metric: Metric, *, is_open: bool) -> Iterator[str]:
    sample = f"{metric.name}_total" if metric.kind == COUNTER else metric.name
    family = metric.name if is_open else sample
    yield f"# TYPE {family} {metric.kind}"
    if is_open and metric.unit:
        yield f"# UNIT {family} {metric.unit}"
    yield f"# HELP {family} {_escaped(metric.help)}"
    for one in metric.readings:
        yield f"{sample}{_labels(one)} {_number(one.value)}"


def _labels(reading: MetricValue) -> str:
    if not reading.labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in reading.labels.items()) + "}"


def _escaped(text: str) -> str:
    # Names from outside may have halves of characters, which no text may have.
    clean = text.encode(errors="replace").decode()
    return clean.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
