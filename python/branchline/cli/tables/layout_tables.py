"""Prints the layout of files on disk as tables."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from branchline.base.quantities import count, counted, percent, significant, size
from branchline.cli.tables.terminal import console as standard_output
from branchline.reading.layout.dataset_layout import DatasetLayout
from branchline.reading.layout.extents import Spread
from branchline.reading.layout.file_layout import FileLayout

#: Maximum number of rows in a table on the terminal; the output of --json has all rows.
ROWS_SHOWN = 60
# Minimum width of the terminal to show more of a distribution than the median.
NARROW_COLUMNS = 120


def print_dataset(layout: DatasetLayout) -> None:
    """Print the table of a dataset's files."""
    console = standard_output()
    table = _table("files", ("file", "size", "entries", "branches", "codecs"))
    for one in layout.files[:ROWS_SHOWN]:
        table.add_row(one.path, size(one.size_bytes), count(one.entries), count(len(one.schema)), ", ".join(one.codecs))
    console.print(table)
    if len(layout.files) > ROWS_SHOWN:
        _print_line(console, f"and {counted(len(layout.files) - ROWS_SHOWN, 'file')} more; see all with --json")
    for path, reason in layout.bad:
        _print_line(console, f"cannot be read: {path}: {reason}")
    total = f"{counted(len(layout.files), 'file')}, {count(layout.entries)} entries, {size(layout.size_bytes)}"
    _print_line(console, total)
    for sentence in layout.remarks():
        _print_line(console, sentence)


def print_file(layout: FileLayout, console: Console) -> None:
    """Print the tables of a file's branches and physical layout."""
    is_narrow = console.width < NARROW_COLUMNS
    # Narrow terminals only have room for the median of each distribution.
    spread = _median if is_narrow else _spread
    per_basket = (
        ("entries\nper\nbasket", "bytes\nper\nbasket") if is_narrow else ("entries per basket", "bytes per basket")
    )
    head = ("branch", "type", "compressed", "factor", "baskets", *per_basket)
    table = _table("branches, the largest first", head)
    largest = sorted(layout.branches, key=lambda branch: -branch.compressed_bytes)[:ROWS_SHOWN]
    for branch in largest:
        table.add_row(
            branch.path,
            branch.typename,
            size(branch.compressed_bytes),
            f"{branch.factor:.2f}",
            count(branch.baskets),
            spread(branch.entries_per_basket, count),
            spread(branch.bytes_per_basket, size),
        )
    console.print(table)
    if len(layout.branches) > ROWS_SHOWN:
        _print_line(console, f"and {count(len(layout.branches) - ROWS_SHOWN)} smaller branches; see all with --json")
    codecs = ", ".join(f"{name} {percent(held, layout.compressed_bytes)}" for name, held in layout.codecs.items())
    _print_line(
        console,
        f"{layout.path}: {size(layout.size_bytes)}, {layout.format} {layout.tree} of "
        f"{count(layout.entries)} entries, {counted(len(layout.branches), 'branch', 'branches')}, "
        f"{size(layout.compressed_bytes)} compressed ({codecs}), {size(layout.plain_bytes)} plain",
    )
    wanted = "all branches" if len(layout.wanted) == len(layout.branches) else f"{len(layout.wanted)} branches"
    console.print(_physical_table(layout, f"reading {wanted}, entry by entry"))


def _physical_table(layout: FileLayout, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False)
    travel, gaps, clusters, pages = layout.travel, layout.gaps, layout.clusters, layout.disk_pages
    times = travel.distance_bytes / travel.wanted_bytes if travel.wanted_bytes else 0.0
    for name, value in (
        (
            "reads",
            f"{counted(travel.baskets, 'basket')} of {size(travel.wanted_bytes)} in total, within "
            f"{size(travel.span_bytes)}",
        ),
        (
            "distance",
            f"{size(travel.distance_bytes)} between them, {significant(times, 2)} times the bytes read, "
            f"in {counted(travel.jumps, 'jump')}, {count(travel.jumps_back)} backwards",
        ),
        ("gaps", f"{count(gaps.count)} of {size(gaps.total_bytes)} in total, the largest {size(gaps.largest_bytes)}"),
        (
            "clusters",
            f"{count(clusters.count)} of {_spread(clusters.entries, count)} entries and "
            f"{_spread(clusters.stored_bytes, size)}",
        ),
        (
            "disk pages",
            f"{count(pages.count)} of {pages.page_bytes} bytes, {count(pages.with_others)} of them shared with other "
            f"branches; {size(pages.unwanted_bytes)} in them is not needed",
        ),
    ):
        table.add_row(name, value)
    return table


def _spread(spread: Spread, shown: Callable[[float], str]) -> str:
    """Return the minimum, median and maximum as text; a single number if all three are equal."""
    texts = [shown(value) for value in (spread.least, spread.median, spread.most)]
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} / {texts[1]} / {texts[2]}"


def _median(spread: Spread, shown: Callable[[float], str]) -> str:
    return shown(spread.median)


def _table(title: str, head: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(head):
        table.add_column(
            Text(heading), justify="left" if number < 2 and heading != "size" else "right", overflow="fold"
        )
    return table


def _print_line(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)
