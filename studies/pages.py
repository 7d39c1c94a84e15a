"""Pages of the studies: for each document theirs beside ours, what was found again, what not, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from docs.generate.tables import table

from branchline.base.quantities import counted, duration, percent, significant
from branchline.lab.statistics import Ratio
from branchline.lab.studies.study_result import ArmResult, StudyResult
from branchline.lab.studies.verdict import answer
from studies import curves, forecasts, records
from studies.findings import FOUND, NOT_FOUND, NOT_JUDGED, UNMEASURED, UNSURE, FindingHere, NumberHere
from studies.pictures import pictures_of
from studies.published import (
    QUANTITIES,
    STUDIES,
    Document,
    Finding,
    Number,
    Published,
    StudyPair,
    all_studies,
    documents,
)
from studies.records import Record

FOLDER = STUDIES.parent / "docs" / "studies"
#: Of this a published number is a multiple: rates of bytes are in MB/s, shares in per cent.
_SCALE = {"bytes_per_s": 1e6, "efficiency": 0.01}
_ARMS_MAX = 48


def write(folder: Path, kept: Path) -> None:
    """Writes a page for each document, its pictures, and the page that lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.svg"), *folder.glob("*.md")):
        old.unlink()
    pairs = all_studies()
    found = {one.name: records.read(one.name, kept) for one in pairs}
    for document in documents():
        own = [one for one in pairs if one.published.document == document.name]
        (folder / f"{document.name}.md").write_text(_page(document, own, found, folder), encoding="utf-8")
    (folder / "index.md").write_text(_index(pairs, found), encoding="utf-8")
    (folder / "forecasts.md").write_text(forecasts.page(pairs, kept), encoding="utf-8")
    latency = curves.read(kept)
    if latency is not None:
        (folder / "latency.svg").write_text(curves.picture(latency), encoding="utf-8")


def _index(pairs: Sequence[StudyPair], found: dict[str, Record | None]) -> str:
    lines = [_INDEX_HEAD]
    rows, verdicts = [], (FOUND, NOT_FOUND, UNSURE, NOT_JUDGED, UNMEASURED)
    for one in documents():
        own = [pair for pair in pairs if pair.published.document == one.name]
        counts = _verdicts([found[pair.name] for pair in own])
        skipped = sum(1 for pair in own if _left_out(pair, found[pair.name]))
        cells = [str(counts[name]) for name in verdicts]
        rows.append([f"[{one.title}]({one.name}.md)", str(len(own)), str(skipped), *cells])
    lines.append(table(["studies of", "studies", "left out here", *verdicts], rows))
    measured = [one for one in found.values() if one is not None]
    if any(one.is_provisional for one in measured):
        lines.append(_PROVISIONAL)
    left_out = [(pair.published, why) for pair in pairs if (why := _left_out(pair, found[pair.name]))]
    if left_out:
        rows = [[f"[{one.objects}]({one.document}.md): {one.title}", why] for one, why in left_out]
        lines += ["", "## Left out here", "", table(["study", "why"], rows)]
    lines += ["", "[Theirs, ours, forecast](forecasts.md): what the simulator says of some of these arms.", ""]
    lines += [":::{toctree}", ":hidden:", "", *(one.name for one in documents()), "forecasts", ":::", ""]
    return "\n".join(lines)


def _left_out(pair: StudyPair, record: Record | None) -> str:
    """Why a study was not measured on this machine; empty if it was, or was not run yet."""
    return record.skipped if record is not None else pair.published.cannot


def _verdicts(found: Sequence[Record | None]) -> Counter[str]:
    return Counter(one.verdict for record in found if record is not None for one in record.findings)


def _page(document: Document, pairs: Sequence[StudyPair], found: dict[str, Record | None], folder: Path) -> str:
    lines = [f"# {document.title}", "", document.about, ""]
    for pair in pairs:
        lines += _section(pair, found[pair.name], folder)
    return "\n".join(lines).rstrip() + "\n"


def _section(pair: StudyPair, record: Record | None, folder: Path) -> list[str]:
    published = pair.published
    lines = [f"## {published.objects}: {published.title}", ""]
    source = "" if published.cannot else f" The study: `studies/{published.document}/{pair.asked.name}`."
    lines += [f"{published.scale}{source}".strip(), ""]
    if record is None or record.result is None:
        reason = record.skipped if record is not None else published.cannot or "it was not run yet"
        lines += [f"**Left out on this machine:** {reason}.", ""]
        return [*lines, *_theirs_alone(published)]
    lines += _heading(record, record.result)
    if record.numbers:
        lines += ["### Theirs beside ours", "", _numbers(record.numbers)]
    if record.findings:
        lines += ["### What was found again", "", _findings(record.findings), *_reasons(record.findings)]
    for number, (title, svg) in enumerate(pictures_of(record.result), 1):
        name = f"{pair.name}-{number}.svg"
        (folder / name).write_text(svg, encoding="utf-8")
        lines += [f"![{title}]({name})", ""]
    return [*lines, ":::{dropdown} All arms", "", _arms(record.result), ":::", ""]


def _theirs_alone(published: Published) -> list[str]:
    """What was published, where nothing is beside it."""
    rows = [[one.what, _value(one.value, one.unit), one.where] for one in published.numbers]
    rows += [
        [one.text, "" if one.theirs is None else f"ratio {one.theirs:.3g}", one.where] for one in published.findings
    ]
    return [table(["published", "theirs", "where"], rows), ""] if rows else []


def _heading(record: Record, result: StudyResult) -> list[str]:
    machine = record.machine
    said = answer(result)
    lines = [f"**{said[:1].upper()}{said[1:]}.**", ""]
    controls = ", ".join(f"{one.name} {_ratio(one.time)}" for one in result.controls) or "none"
    about = f"{counted(result.rounds, 'round')} in {duration(result.spent_s)}, seed {result.seed}, {machine.at[:10]}"
    about += f", {machine.processor}, {machine.cores} cores, load before it {machine.load:.1f}"
    lines += [f"Control (a baseline beside itself): {controls}. {about}.", ""]
    if record.is_provisional:
        why = (
            "in the quick form, with small files and one round"
            if record.is_quick
            else "while other programs were at work"
        )
        lines += [f"*Provisional: measured {why}. The values say nothing yet.*", ""]
    return lines


def _numbers(found: Sequence[NumberHere]) -> str:
    rows = []
    for one in found:
        number = one.number
        ours = (
            "" if one.ours is None else _value(one.ours / _SCALE.get(number.quantity, 1.0), QUANTITIES[number.quantity])
        )
        if not ours:
            ours = "not measured in this form" if number.arm else _no_arm(number)
        rows.append([number.what, _value(number.value, number.unit), ours, number.where])
    return table(["what", "theirs", "ours", "where"], rows)


def _no_arm(number: Number) -> str:
    return "a setting of theirs" if not number.quantity else ""


def _findings(found: Sequence[FindingHere]) -> str:
    rows = []
    for one in found:
        theirs = "" if one.finding.theirs is None else f"{one.finding.theirs:.3g}"
        rows.append([one.finding.text, _bounds(one.finding), theirs, _ratio(one.ratio), one.verdict, one.finding.where])
    return table(["what they found", "ratio", "theirs", "ours", "verdict", "where"], rows)


def _bounds(finding: Finding) -> str:
    parts = [] if finding.least is None else [f"at least {finding.least:g}"]
    parts += [] if finding.most is None else [f"at most {finding.most:g}"]
    return " and ".join(parts)


def _reasons(found: Sequence[FindingHere]) -> list[str]:
    """Why something may not have been found, where it was not."""
    reasons = [one for one in found if one.verdict == NOT_FOUND and one.finding.if_not]
    return [*(f"- *{one.finding.text}*, not found: {one.finding.if_not}." for one in reasons), ""] if reasons else [""]


def _arms(result: StudyResult) -> str:
    head = ["arm", "events/s", "MB/s", "CPU efficiency", "share of the limit", "read for each byte", "over the network"]
    rows = [_arm(one) for one in result.arms[:_ARMS_MAX]]
    return table([*head, "calls", "time beside the baseline", "lost"], rows)


def _arm(one: ArmResult) -> list[str]:
    return [
        one.name,
        "" if one.events_per_s is None else significant(one.events_per_s),
        "" if one.bytes_per_s is None else significant(one.bytes_per_s / 1e6),
        "" if one.efficiency is None else percent(one.efficiency, 1.0),
        "" if one.limit_share is None else percent(one.limit_share, 1.0),
        "" if one.read_share is None else significant(one.read_share),
        "" if one.network_share is None else significant(one.network_share),
        "" if one.calls is None else significant(one.calls),
        "baseline" if one.is_baseline else _ratio(one.time),
        f"{one.lost}: {next(iter(one.errors), '')}"[:160] if one.lost else "",
    ]


def _ratio(one: Ratio | None) -> str:
    if one is None:
        return ""
    if one.low is None or one.high is None:
        return f"{one.value:.3g} (no interval: {one.pairs} of 6 pairs)"
    return f"{one.value:.3g} ({one.low:.3g} to {one.high:.3g})"


def _value(value: float, unit: str) -> str:
    # Counts of theirs are whole numbers; a digit behind the point would claim more than they said.
    shown = f"{value:,.0f}".replace(",", " ") if value >= 10 and value == round(value) else significant(value)
    return f"{shown} {unit}".strip()


_INDEX_HEAD = """# Earlier studies, done again

Five studies of storages and jobs, done between 2008 and 2013, asked what Branchline's lab is for: where the time of a
job goes, and what would make it faster. They are done again here, with [the lab](../guides/studies.md), on real
servers and on disks and links that are emulated: loop devices whose rate and requests per second the kernel caps, RAIDs
of them by btrfs, a link of 1 Gb/s between two networks of one machine, a proxy with the latency of a wide area.

- **Their numbers** are those that their text and tables name; what only a picture shows is a finding without a number.
- **A finding** is a ratio of two arms. It is *found again* where the whole interval of our ratio is within the
  finding's bounds, *not found* where all of it is outside, else *not sure*; fewer than six pairs have no interval. It
  is *not judged* in the quick form, and where other programs kept the machine busy.
- **Files** are like ALICE's event summaries of 2009: 534 branches with data, some 720 baskets for 100 events, zlib 1.
  At full size there are 128 small files with 100 events each, and 32 that are merged of 4. So a job reads megabytes
  where theirs read gigabytes; all files are thrown out of the page cache before each sample.
- **Disks** are capped at 70 MB/s and 540 requests per second, as the SATA disks of 2008. A cap does not know how far a
  head moves: what follows from long ways between requests is weaker here. The processor is several times as fast.
- **Storages** that cannot be had have stand-ins: MooseFS for Lustre, GlusterFS for GPFS, XRootD for DPM. No number of
  ours is one of theirs.

`make studies` runs all and writes these pages, `make studies STUDY=esd-table-2` one. With `QUICK=1` it takes minutes
and only shows that a study works.
"""
_PROVISIONAL = """
:::{warning}
Some of what stands here is provisional: measured in the quick form, or while other programs were at work. Such studies
say so.
:::
"""
