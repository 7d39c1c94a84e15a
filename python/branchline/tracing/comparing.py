"""Two traces side by side: what changed and by how much, in numbers, sentences and pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from branchline.report.quantities import count, duration, significant, size
from branchline.report.whole_files import write_whole
from branchline.tracing.page import ROWS_MAX, Cell, data_text, environment
from branchline.tracing.summary import summarise
from branchline.tracing.trace import Trace

Shown = Callable[[float], str]

#: Totals that are compared: the name in the summary, the label, and the function that formats a value.
TOTALS: tuple[tuple[str, str, Shown], ...] = (
    ("read_calls", "read calls", count),
    ("read_bytes", "bytes read", size),
    ("distinct_bytes", "different bytes read", size),
    ("again_bytes", "bytes read again", size),
    ("unwanted_bytes", "bytes read and not used", size),
    ("basket_read_calls", "calls for baskets and pages", count),
    ("basket_read_bytes", "bytes of these calls", size),
    ("seeks", "seeks", count),
    ("seek_bytes", "bytes between reads", size),
    ("reading_s", "time with a request on its way", duration),
    ("in_flight_mean", "requests at a time", significant),
    ("wall_s", "time of the whole", duration),
)
#: The least relative change that gets a sentence; times vary from run to run and have to differ by more.
CHANGED, CHANGED_TIME = 0.005, 0.1
#: Numbers of the totals that have a sentence.
_WITH_SENTENCE = (
    "read_calls",
    "read_bytes",
    "again_bytes",
    "unwanted_bytes",
    "seeks",
    "seek_bytes",
    "reading_s",
    "wall_s",
)
#: Rows are sorted by the change of these.
_ORDERED = ("read_bytes", "read_calls")
_TIMES = ("reading_s", "wall_s", "in_flight_mean")


def compare(first: Trace, second: Trace) -> dict[str, Any]:
    """The comparison of two traces, as plain numbers and texts.

    Files are taken for the same where their names are, wherever they lie; branches by their tree and name.
    """
    one, two = summarise(first), summarise(second)
    return {
        "about": [one["about"], two["about"]],
        "totals": [
            {"name": name, "label": label, **_change(one["totals"][name], two["totals"][name])}
            for name, label, _ in TOTALS
        ],
        "kinds": _rows(one["kinds"], two["kinds"], ("what",)),
        "files": _rows(map(_named, one["files"]), map(_named, two["files"]), ("name",)),
        "branches": _rows(one["branches"], two["branches"], ("tree", "branch")),
    }


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "name": row["file"].rpartition("/")[2]}


def _change(one: float, two: float) -> dict[str, float | None]:
    return {"first": one, "second": two, "factor": two / one if one else None}


def _rows(
    first: Iterable[Mapping[str, Any]], second: Iterable[Mapping[str, Any]], keys: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Rows of both by their names, those first that changed most in bytes and calls."""
    sides: list[dict[tuple[str, ...], dict[str, int]]] = [{}, {}]
    for side, rows in zip(sides, (first, second), strict=True):
        for row in rows:
            sums = side.setdefault(tuple(row[key] for key in keys), {"read_calls": 0, "read_bytes": 0})
            for name in sums:
                sums[name] += row[name]
    joined = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        nothing = {"read_calls": 0, "read_bytes": 0}
        one, two = sides[0].get(key, nothing), sides[1].get(key, nothing)
        joined.append(
            {**dict(zip(keys, key, strict=True)), **{name: _change(one[name], two[name]) for name in nothing}}
        )
    return sorted(joined, key=lambda row: [-abs(row[name]["second"] - row[name]["first"]) for name in _ORDERED])


def sentences(found: dict[str, Any]) -> list[str]:
    """The changes as sentences; one sentence names what stayed the same."""
    shown = {name: show for name, _, show in TOTALS}
    changed, same = [], []
    for row in found["totals"]:
        if row["name"] not in _WITH_SENTENCE:
            continue
        if not _differs(row, CHANGED_TIME if row["name"] in _TIMES else CHANGED):
            same.append(row["label"])
            continue
        changed.append(f"{_capital(row['label'])}: {_in_words(row, shown[row['name']])}.")
    if same:
        changed.append(f"The same in both: {', '.join(same)}.")
    return changed + _about_branches(found["branches"])


def _differs(row: Mapping[str, Any], least: float) -> bool:
    one, two = row["first"], row["second"]
    return bool(abs(two - one) > least * max(abs(one), abs(two)))


def _in_words(row: Mapping[str, Any], show: Shown) -> str:
    one, two = row["first"], row["second"]
    values = f"{show(two)} instead of {show(one)}"
    if not one or not two:
        return values
    if two > one:
        more = two / one
        return (
            f"{values}, {significant(more, 3)} times as much" if more >= 1.5 else f"{values}, {_percent(more - 1)} more"
        )
    less = one / two
    return (
        f"{values}, {significant(less, 3)} times less" if less >= 1.5 else f"{values}, {_percent(1 - two / one)} less"
    )


def _percent(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _about_branches(rows: list[dict[str, Any]]) -> list[str]:
    """Branches that only one of the two read."""
    found = []
    for mine, other, which in (("first", "second", "first"), ("second", "first", "second")):
        only = [row["branch"] for row in rows if row["read_bytes"][mine] and not row["read_bytes"][other]]
        if only:
            names = ", ".join(only[:3]) + (f" and {count(len(only) - 3)} more" if only[3:] else "")
            found.append(f"Branches that only the {which} read: {names}.")
    return found


def write_comparison(first: Trace, second: Trace, path: Path) -> None:
    """Writes a page with both, their pictures linked: what is zoomed in one is zoomed in the other."""
    found = compare(first, second)
    commands = [about.get("command", "a job") for about in found["about"]]
    content = {
        "title": f"{commands[0]} and {commands[1]}",
        "commands": commands,
        "sentences": sentences(found),
        "notes": list(dict.fromkeys((*first.notes, *second.notes))),
        "tables": _tables(found),
        "data": [data_text(one, summarise(one)) for one in (first, second)],
    }
    write_whole(path, environment().get_template("diff.html").render(content).encode("utf-8"))


def _tables(found: dict[str, Any]) -> list[dict[str, Any]]:
    shown = {name: show for name, _, show in TOTALS}
    totals = [
        [
            Cell(row["label"]),
            *(Cell(shown[row["name"]](row[side]), row[side]) for side in ("first", "second")),
            _factor(row),
        ]
        for row in found["totals"]
    ]
    tables = [_table("totals", "The whole", ("", "first", "second", "second / first"), totals)]
    for name, title, keys in (
        ("files", "Files", ("name",)),
        ("kinds", "What was hit", ("what",)),
        ("branches", "Branches, the most changed first", ("branch", "tree")),
    ):
        heads = (*keys, "calls, first", "second", "bytes, first", "second", "second / first")
        rows = [[*(Cell(row[key]) for key in keys), *_pair(row)] for row in found[name]]
        tables.append(_table(name, title, heads, rows))
    return tables


def _table(name: str, title: str, heads: tuple[str, ...], rows: list[list[Cell]]) -> dict[str, Any]:
    return {
        "name": name,
        "title": title,
        "heads": heads,
        "rows": rows[:ROWS_MAX],
        "left_out": max(len(rows) - ROWS_MAX, 0),
    }


def _pair(row: Mapping[str, Any]) -> list[Cell]:
    calls, read = row["read_calls"], row["read_bytes"]
    return [
        Cell(count(calls["first"]), calls["first"]),
        Cell(count(calls["second"]), calls["second"]),
        Cell(size(read["first"]), read["first"]),
        Cell(size(read["second"]), read["second"]),
        _factor(read),
    ]


def _factor(row: Mapping[str, Any]) -> Cell:
    return Cell("-", 0) if row["factor"] is None else Cell(significant(row["factor"], 3), row["factor"])
