"""Charts of a job over time, from the timeline and the activity in its record."""

from __future__ import annotations

from collections.abc import Sequence

from branchline.base.palette import PHASES, STAGES
from branchline.base.quantities import MB
from branchline.base.texts import one_line
from branchline.records.charts.axes import number_axis, time_axis
from branchline.records.charts.chart import NAME_MAX, Chart
from branchline.records.charts.over_time import JOB_TIME, GrowingSeries, Spans, rates_chart, spans_chart
from branchline.records.sensors.record import ActivitySpan, TimePoint

#: Colours of the curves: those of the phases that do the same work.
_READ, _PLAIN, _EVENTS = (PHASES[one] for one in ("wait", "decompress", "wagons"))
#: Smallest ends of the axes of IOWait in per cent and of the network in MB/s: below, there is only noise.
IOWAIT_LEAST, NETWORK_LEAST = 10.0, 1.0
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


def profile_chart(
    activity: Sequence[ActivitySpan], wall_s: float, note: str = "", *, is_simulated: bool = False
) -> Chart:
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
    return spans_chart("At work", "processes", kinds, wall_s, note=note, is_simulated=is_simulated)


def machine_charts(points: Sequence[TimePoint], wall_s: float, host: str, cores: int) -> list[Chart]:
    """Return charts of the busy cores, the IOWait and the network of a job's machine, which other programs share.

    They follow the CPU utilization, the IOWait and the network load of studies of storages.
    """
    known = [one for one in points if one.machine_cpu_s is not None and one.machine_iowait_s is not None]
    times = [float(one.t_s) for one in known]
    received = [one for one in points if one.machine_received_bytes is not None]
    if len(known) < 2 and len(received) < 2:
        empty = "Not recorded: the job was too short, or its workers ran on other machines."
        return [Chart("Machine", time_axis(JOB_TIME, 0, 1), number_axis("", 1), empty=empty)]
    busy = [float(one.machine_cpu_s or 0.0) for one in known]
    idle = [float(one.machine_iowait_s or 0.0) for one in known]
    network = [float(one.machine_received_bytes or 0) for one in received]
    waiting = GrowingSeries("idle while a program waits for a disk", _PLAIN, idle, 100.0 / max(cores, 1))
    loaded = GrowingSeries("received", _READ, network, 1 / MB)
    note = f"All programs on {one_line(host, NAME_MAX)}."
    return [
        rates_chart("Busy cores", "cores", times, [GrowingSeries("busy", _EVENTS, busy)], wall_s, note=note),
        rates_chart("IOWait", "% of the cores", times, [waiting], wall_s, least=IOWAIT_LEAST, note=note),
        rates_chart(
            "Network load",
            "MB/s",
            [float(one.t_s) for one in received],
            [loaded],
            wall_s,
            least=NETWORK_LEAST,
            note=note,
        ),
    ]
