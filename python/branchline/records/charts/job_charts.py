"""Charts of a job over time, from the timeline and the activity in its record."""

from __future__ import annotations

from collections.abc import Sequence

from branchline.base.palette import PHASES, STAGES
from branchline.base.quantities import MB
from branchline.records.charts.chart import Chart
from branchline.records.charts.over_time import GrowingSeries, Spans, rates_chart, spans_chart
from branchline.records.sensors.record import ActivitySpan, TimePoint

#: Colours of the curves: those of the phases that do the same work.
_READ, _PLAIN, _EVENTS = (PHASES[one] for one in ("wait", "decompress", "wagons"))
#: Colours of processing and of the last merge, as in the profiles of the ALICE study.
_PROCESSING, _LAST = PHASES["wagons"], PHASES["decompress"]


def throughput_charts(points: Sequence[TimePoint], wall_s: float) -> list[Chart]:
    """Return charts of the events and of the bytes per second of a job."""
    times = [float(one.t_s) for one in points]
    events = [GrowingSeries("events", _EVENTS, [float(one.events) for one in points])]
    data = [
        GrowingSeries("after decompression", _PLAIN, [float(one.plain_bytes) for one in points], 1 / MB),
        GrowingSeries("read from storage", _READ, [float(one.bytes_read) for one in points], 1 / MB),
    ]
    return [
        rates_chart("Events", "events/s", times, events, wall_s),
        rates_chart("Data", "MB/s", times, data, wall_s),
    ]


def profile_chart(activity: Sequence[ActivitySpan], wall_s: float, note: str = "") -> Chart:
    """Return a chart of the number of busy processes over time, split into processing and merge stages.

    It follows figure 6 of L Betev et al., "Performance optimisations for distributed analysis in ALICE" (2014).
    """
    by_stage: dict[int, list[tuple[float, float]]] = {0: []}
    last: list[tuple[float, float]] = []
    for one in activity:
        spans = last if one.is_last else by_stage.setdefault(one.stage, [])
        spans.append((one.begin_s, one.end_s))
    kinds = [Spans("processing", _PROCESSING, by_stage.pop(0))]
    for stage, spans in sorted(by_stage.items()):
        kinds.append(Spans(f"merging, stage {stage}", STAGES[(stage - 1) % len(STAGES)], spans))
    kinds += [Spans("last merge", _LAST, last)] if last else []
    return spans_chart("At work", "processes", kinds, wall_s, note=note)
