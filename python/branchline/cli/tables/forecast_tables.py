"""Forecasts as a table for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from branchline.base.quantities import count, size
from branchline.trains.testing.cost_forecast import Forecast, WagonForecast

BRANCHES_SHOWN = 6
# Wider than any table, to measure the width that one needs.
WIDEST = 1000


def print_forecast(forecast: Forecast, console: Console) -> None:
    """A row for each wagon, then the whole train and how it was extrapolated."""
    table = Table(title="each wagon alone", title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("wagon", no_wrap=True)
    for heading in (
        "events\ntried",
        "first\nchunk",
        "time per\nevent",
        "CPU per\nevent",
        "memory",
        "output",
        "output\nof all",
    ):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for wagon in forecast.wagons:
        table.add_row(*_row(wagon))
    if console.measure(table, options=console.options.update_width(WIDEST)).maximum <= console.width:
        console.print(table)
    else:
        _print_one_by_one(table, console)
    for wagon in forecast.wagons:
        if wagon.error is None:
            console.print(f"{wagon.name} reads {branches_text(wagon.branches)}", markup=False, soft_wrap=True)
            if wagon.variations:
                console.print(f"{wagon.name} is varied: {', '.join(wagon.variations)}", markup=False, soft_wrap=True)
        else:
            console.print(wagon.error.sentence(wagon.name), markup=False, soft_wrap=True)
    for difference in forecast.differences:
        console.print(difference.sentence(), markup=False, soft_wrap=True)
    console.print(_summary(forecast), markup=False, soft_wrap=True)
    for sentence in forecast.basis:
        console.print(f"  {sentence}", markup=False, soft_wrap=True)


def _print_one_by_one(table: Table, console: Console) -> None:
    """The rows below each other, for a terminal that is too narrow for them."""
    headings = [str(column.header).replace("\n", " ") for column in table.columns]
    for cells in zip(*(column.cells for column in table.columns), strict=True):
        for heading, cell in zip(headings, cells, strict=True):
            if cell:
                console.print(f"{heading:>15}  {cell}", markup=False, highlight=False)


def _row(wagon: WagonForecast) -> list[str]:
    if wagon.error is not None and wagon.events == 0:
        return [wagon.name, "fails", *[""] * 6]
    return [
        wagon.name,
        f"{wagon.events}" if wagon.error is None else "fails",
        duration_text(wagon.first_s),
        duration_text(wagon.seconds_per_event),
        duration_text(wagon.cpu_s_per_event),
        size(wagon.memory_bytes),
        size(wagon.output_bytes),
        size(wagon.output_bytes_forecast) + (" \u2191" if wagon.output_grows else ""),
    ]


def _summary(forecast: Forecast) -> str:
    return (
        f"forecast for {count(forecast.events)} events with {forecast.workers} workers: "
        f"{duration_text(forecast.seconds)}, {size(forecast.memory_bytes)} of memory, "
        f"{size(forecast.output_bytes)} of output; "
        f"reading takes {duration_text(forecast.read_s_per_event)} per event"
    )


def branches_text(branches: tuple[str, ...]) -> str:
    """The first few names and how many more there are."""
    shown = ", ".join(branches[:BRANCHES_SHOWN])
    more = len(branches) - BRANCHES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown or "nothing"


def duration_text(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("\u00b5s", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 120 else f"{seconds / 60:.0f} min"
    return f"{seconds / 1e-9:.0f} ns"
