"""The overhead of the sensors: the same reads with and without sensors, interleaved."""

from __future__ import annotations

from benches.arms import sensor_arms
from benches.rounds import Case, Sample, Spread, ratio, seconds_of
from benches.tables import case_line, opening, spread, table


def sensors_page(cases: list[Case], samples: list[Sample], repeats: int) -> str:
    """Return the page with the seconds with and without sensors, and the overhead; the goal is below 1 %."""
    lines = opening("Overhead of the sensors", repeats)
    rows = []
    for case in cases:
        for cores in sorted({arm.cores for arm in sensor_arms()}):
            on, off = (arm.key for arm in sensor_arms() if arm.cores == cores)
            seconds = [Spread.of(list(seconds_of(samples, case.name, key).values())) for key in (on, off)]
            pairs = ratio(samples, case.name, on, off)
            cost = Spread(pairs.median - 1, pairs.low - 1, pairs.high - 1)
            best = seconds[0].low / seconds[1].low - 1
            row = [case.name, str(cores), *(spread(s, digits=3) for s in seconds)]
            rows.append([*row, spread(cost, scale=100, unit=" %"), f"{100 * best:.2f} %"])
    head = ["read", "cores", "with sensors s", "without s", "cost, pair by pair", "cost, fastest passes"]
    lines += [table(head, rows), "", *(f"- {case.name}: {case_line(case)}" for case in cases)]
    return "\n".join(lines) + "\n"
