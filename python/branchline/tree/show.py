"""A tree as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from branchline.tree.handles import BranchHandle, TreeHandle

HEAD = ("branch", "type", "entries", "baskets", "compressed", "plain", "factor")
TYPE_WIDTH_MAX = 44
UNITS = ("B", "kB", "MB", "GB", "TB")


def size_text(size_bytes: float) -> str:
    """A size in units of 1000, such as ``3.1 MB``."""
    for unit in UNITS[:-1]:
        if size_bytes < 1000:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} {UNITS[-1]}"


def table(tree: TreeHandle, branches: Sequence[BranchHandle]) -> str:
    """The lines of the table, with a line of totals and one that names what is not read."""
    rows = [HEAD, *(_row(branch) for branch in branches)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    shown = {branch.number for branch in branches}
    counted = [one for one in branches if not (one.is_part and tree.outline.parents[one.number] in shown)]
    compressed = sum(branch.compressed_bytes for branch in counted)
    plain = sum(branch.plain_bytes for branch in counted)
    lines.append(
        f"{tree.path}: {tree.entries_count} entries, {len(branches)} branches, "
        f"{size_text(compressed)} compressed, {size_text(plain)} plain"
    )
    unread = [branch for branch in branches if not branch.readable and not branch.is_group]
    if unread:
        lines.append(f"{len(unread)} {'branch' if len(unread) == 1 else 'branches'} cannot be read yet:")
        lines += [f"  {branch.path} ({branch.typename}): {branch.reason}" for branch in unread]
    return "\n".join(line.rstrip() for line in lines)


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
    sizes = (size_text(branch.compressed_bytes), size_text(branch.plain_bytes), f"{factor:.2f}")
    return (name, typename, str(branch.entries_count), str(branch.baskets_count), *sizes)


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    texts = [text.rjust(width) for text, width in zip(row, widths, strict=True)]
    texts[:2] = [text.ljust(width) for text, width in zip(row[:2], widths, strict=False)]
    return "  ".join(texts)
