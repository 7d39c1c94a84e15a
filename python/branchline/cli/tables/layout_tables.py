"""How files lie on disk, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table
from rich.text import Text

from branchline.base.plain import to_plain
from branchline.base.quantities import count, counted, percent, significant, size
from branchline.cli.printing import print_json
from branchline.cli.tables.lines import print_advice
from branchline.cli.tables.terminal import console as standard_output
from branchline.lab.advice.layout_advice import advise_dataset, advise_file
from branchline.reading.layout.dataset_layout import DatasetLayout
from branchline.reading.layout.extents import Spread
from branchline.reading.layout.file_layout import FileLayout

#: Rows of a table on the terminal; --json has them all.
ROWS_SHOWN = 60
# Below this width there is room for the middle of a spread only.
NARROW_COLUMNS = 120


def print_dataset(layout: DatasetLayout, *, as_json: bool) -> None:
    """The table of files, and advice."""
    found = advise_dataset(layout)
    if as_json:
        print_json({**layout.as_json(), "advice": to_plain(found)})
        return
    console = standard_output()
    table = _table("files", ("file", "size", "entries", "branches", "codecs"))
    for one in layout.files[:ROWS_SHOWN]:
        table.add_row(one.path, size(one.size_bytes), count(one.entries), count(len(one.schema)), ", ".join(one.codecs))
    console.print(table)
    if len(layout.files) > ROWS_SHOWN:
        _print_line(console, f"and {counted(len(layout.files) - ROWS_SHOWN, 'file')} more; --json has them all")
    for path, reason in layout.bad:
        _print_line(console, f"cannot be read: {path}: {reason}")
    total = f"{counted(len(layout.files), 'file')}, {count(layout.entries)} entries, {size(layout.size_bytes)}"
    _print_line(console, total)
    for sentence in layout.remarks():
        _print_line(console, sentence)
    print_advice(found, "Nothing in how these files lie makes reading them slow.")


def print_file(layout: FileLayout, console: Console) -> None:
    """The tables of branches and of the physical layout, and advice."""
    console.print(_branches_table(layout, is_narrow=console.width < NARROW_COLUMNS))
    if len(layout.branches) > ROWS_SHOWN:
        _print_line(console, f"and {count(len(layout.branches) - ROWS_SHOWN)} smaller branches; --json has them all")
    codecs = ", ".join(f"{name} {percent(held, layout.compressed_bytes)}" for name, held in layout.codecs.items())
    _print_line(
        console,
        f"{layout.path}: {size(layout.size_bytes)}, {layout.format} {layout.tree} of "
        f"{count(layout.entries)} entries, {counted(len(layout.branches), 'branch', 'branches')}, "
        f"{size(layout.compressed_bytes)} compressed ({codecs}), {size(layout.plain_bytes)} plain",
    )
    wanted = "all branches" if len(layout.wanted) == len(layout.branches) else f"{len(layout.wanted)} branches"
    console.print(_physical_table(layout, f"a reader of {wanted}, entry after entry"))
    print_advice(advise_file(layout), "Nothing in how this tree lies makes reading it slow.")


def _branches_table(layout: FileLayout, *, is_narrow: bool) -> Table:
    """The largest branches; of how baskets differ only the median where there is no room for more."""
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
    return table


def _physical_table(layout: FileLayout, title: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False)
    travel, gaps, clusters, pages = layout.travel, layout.gaps, layout.clusters, layout.disk_pages
    times = travel.distance_bytes / travel.wanted_bytes if travel.wanted_bytes else 0.0
    for name, value in (
        (
            "reads",
            f"{counted(travel.baskets, 'basket')} of {size(travel.wanted_bytes)} together, which lie within "
            f"{size(travel.span_bytes)}",
        ),
        (
            "travels",
            f"{size(travel.distance_bytes)} between them, {significant(times, 2)} times what it reads, "
            f"in {counted(travel.jumps, 'jump')}, {count(travel.jumps_back)} backwards",
        ),
        ("gaps", f"{count(gaps.count)} of {size(gaps.total_bytes)} together, the largest {size(gaps.largest_bytes)}"),
        (
            "clusters",
            f"{count(clusters.count)} of {_spread(clusters.entries, count)} entries and "
            f"{_spread(clusters.stored_bytes, size)}",
        ),
        (
            "disk pages",
            f"{count(pages.count)} of {pages.page_bytes} bytes, {count(pages.with_others)} of them shared with other "
            f"branches; {size(pages.unwanted_bytes)} in them is not wanted",
        ),
    ):
        table.add_row(name, value)
    return table


def _spread(spread: Spread, shown: Callable[[float], str]) -> str:
    """Smallest, median and largest; one number where they are the same."""
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
