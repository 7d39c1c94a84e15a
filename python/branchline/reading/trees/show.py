"""A tree as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import count, counted, size
from branchline.base.texts import escaped

if TYPE_CHECKING:
    from branchline.reading.trees.handles import BranchHandle, TreeHandle

HEAD = ("branch", "type", "entries", "baskets", "compressed", "plain", "factor")
TYPE_WIDTH_MAX = 44


def table(tree: TreeHandle, branches: Sequence[BranchHandle]) -> list[str]:
    """The lines of the table, with a line of totals and one that names what is not read."""
    rows = [HEAD, *(tuple(map(escaped, _row(branch))) for branch in branches)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    shown = {branch.number for branch in branches}
    owners = [one for one in branches if not (one.is_part and tree.outline.parents[one.number] in shown)]
    compressed = sum(branch.compressed_bytes for branch in owners)
    plain = sum(branch.plain_bytes for branch in owners)
    lines.append(
        f"{tree.path}: {counted(tree.entries_count, 'entry', 'entries')}, "
        f"{counted(len(branches), 'branch', 'branches')}, {size(compressed)} compressed, {size(plain)} plain"
    )
    unread = [branch for branch in branches if not branch.readable and not branch.is_group]
    if unread:
        lines.append(f"{counted(len(unread), 'branch', 'branches')} cannot be read yet:")
        lines += [f"  {branch.path} ({branch.typename}): {branch.reason}" for branch in unread]
    return [line.rstrip() for line in lines]


def html_of(tree: TreeHandle, branches: Sequence[BranchHandle]) -> str:
    """The table for a notebook: the first branches, and how many more there are."""
    rows = [_row(branch) for branch in branches[:HTML_ROWS]]
    title = f"{tree.path}: {counted(tree.entries_count, 'entry', 'entries')}"
    more = len(branches) - len(rows)
    rest = f"{counted(more, 'more branch', 'more branches')}: show() prints all of them" if more else ""
    return html_table(title, HEAD, rows, rest)


def _row(branch: BranchHandle) -> tuple[str, ...]:
    outline = branch.tree.outline
    parent = outline.parents[branch.number]
    typename = branch.typename
    if len(typename) > TYPE_WIDTH_MAX:
        typename = typename[: TYPE_WIDTH_MAX - 3] + "..."
    name = "  " * outline.depth(branch.number) + outline.path_from(branch.number, parent)
    if branch.is_group:
        return (name, typename, "", "", "", "", "")
    factor = branch.plain_bytes / branch.compressed_bytes if branch.compressed_bytes else 1.0
    sizes = (size(branch.compressed_bytes), size(branch.plain_bytes), f"{factor:.2f}")
    return (name, typename, count(branch.entries_count), count(branch.baskets_count), *sizes)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    texts = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
    texts[:2] = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
    return "  ".join(texts)
