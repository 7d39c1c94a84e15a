"""Pages of the studies: for each document, the published numbers and findings compared with the measured ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from docs.generate.tables import table

from branchline.base.quantities import counted, duration, percent, rate, significant
from branchline.lab.statistics import Ratio
from branchline.lab.studies.study_result import ArmResult, StudyResult
from branchline.lab.studies.verdict import answer
from studies import curves, forecasts, records
from studies.findings import FOUND, OTHER_MECHANISM, VERDICTS, Judgement, judgements
from studies.pictures import pictures_of
from studies.published import (
    QUANTITIES,
    STUDIES,
    Document,
    Finding,
    Levels,
    Published,
    StudyPair,
    all_studies,
    documents,
)
from studies.records import Record

FOLDER = STUDIES.parent / "docs" / "studies"
#: Units of published numbers, in units of the measured ones: MB/s and per cent.
_SCALE = {"bytes_per_s": 1e6, "efficiency": 0.01}
_ARMS_MAX = 48


def write(folder: Path, kept: Path) -> None:
    """Write a page and its plots for each document, and the index."""
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
    rows = []
    for one in documents():
        own = [pair for pair in pairs if pair.published.document == one.name]
        counts = Counter(judged.verdict for pair in own for judged in _judged(pair.published, found[pair.name]))
        rows.append([f"[{one.title}]({one.name}.md)", str(len(own)), *(str(counts[name]) for name in VERDICTS)])
    lines.append(table(["studies of", "studies", *VERDICTS], rows))
    if any(one.reservation for one in found.values() if one is not None):
        lines.append(_PROVISIONAL)
    skipped = [(one.published, record.skipped) for one in pairs if (record := found[one.name]) and record.skipped]
    if skipped:
        rows = [[f"[{one.objects}]({one.document}.md): {one.title}", why] for one, why in skipped]
        lines += ["", "## Left out on this machine", "", table(["study", "reason"], rows)]
    lines += ["", "[Forecasts of the studies](forecasts.md) compares some of these arms with the simulator.", ""]
    lines += [":::{toctree}", ":hidden:", "", *(one.name for one in documents()), "forecasts", ":::", ""]
    return "\n".join(lines)


def _judged(published: Published, record: Record | None) -> list[Judgement]:
    if record is None:
        return judgements(published, None, [], is_quick=False)
    return judgements(published, record.result, record.ratios, is_quick=record.is_quick)


def _page(document: Document, pairs: Sequence[StudyPair], found: dict[str, Record | None], folder: Path) -> str:
    lines = [f"# {document.title}", "", document.about.strip(), ""]
    lines += [_wrapped(f"**Not examined:** {document.not_examined}"), ""]
    for pair in pairs:
        lines += _section(pair, found[pair.name], folder)
    return "\n".join(lines).rstrip() + "\n"


def _section(pair: StudyPair, record: Record | None, folder: Path) -> list[str]:
    published = pair.published
    lines = [f"## {published.objects}: {published.title}", ""]
    lines += [f"{published.differences.strip()}\n\nStudy: `studies/{published.document}/{pair.asked.name}`.", ""]
    result = record.result if record is not None else None
    if record is None or result is None:
        reason = f"left out on this machine: {record.skipped}" if record is not None else "not measured yet"
        lines += [f"**{reason[:1].upper()}{reason[1:]}.**", ""]
    else:
        lines += _heading(record, result)
        if published.numbers:
            lines += ["### Published and measured numbers", "", _numbers(published, result)]
    lines += _findings(_judged(published, record)) if published.findings else [f"*No finding: {published.no_finding}.*"]
    lines.append("")
    if result is None:
        return lines
    for number, (title, svg) in enumerate(pictures_of(result), 1):
        name = f"{pair.name}-{number}.svg"
        (folder / name).write_text(svg, encoding="utf-8")
        lines += [f"![{title}]({name})", ""]
    return [*lines, ":::{dropdown} All arms", "", _arms(result), ":::", ""]


def _heading(record: Record, result: StudyResult) -> list[str]:
    machine = record.machine
    lines = []
    if not record.reservation:
        said = answer(result)
        lines += [f"**{said[:1].upper()}{said[1:]}.**", ""]
    controls = ", ".join(f"{one.name} {_ratio(one.time)}" for one in result.controls) or "none"
    about = f"{counted(result.rounds, 'round')} in {duration(result.spent_s)}, seed {result.seed}, {machine.at[:10]}"
    about += f", {machine.processor}, {machine.cores} cores, load {machine.load:.1f} before the study"
    lines += [f"Control (each baseline compared with itself): {controls}. {about}.", ""]
    disks = "; ".join(f"{one.kind}: {rate(one.before, 1)} and {rate(one.after, 1)}" for one in record.disks)
    lines += [f"Emulated disks, measured before and after the study: {disks}.", ""] if disks else []
    if record.reservation:
        lines += [f"*Provisional: {record.reservation}.*", ""]
    return lines


def _numbers(published: Published, result: StudyResult) -> str:
    rows = []
    for one in published.numbers:
        unit, scale = QUANTITIES[one.quantity], _SCALE.get(one.quantity, 1.0)
        arm = _arm(result, one.arm)
        measured = getattr(arm, one.quantity, None) if arm is not None else None
        ours = "not measured" if measured is None else _value(measured / scale, unit)
        rows.append([one.what, _value(one.value, unit), ours, one.where])
    return table(["quantity", "published", "measured", "source"], rows)


def _findings(judged: Sequence[Judgement]) -> list[str]:
    rows = []
    for one in judged:
        finding = one.finding
        bounds = f"{finding.least:g} to {finding.most:g}"
        rows.append([finding.text, _published(finding), bounds, _ratio(one.ratio), one.verdict, finding.where])
    lines = ["### Findings", "", table(["finding", "published", "bounds", "measured", "verdict", "source"], rows)]
    for one in judged:
        mechanism = one.finding.mechanism
        same = "This is the same mechanism." if mechanism.is_same else "This is another mechanism."
        if one.verdict not in (FOUND, OTHER_MECHANISM):
            same = f"If so, {same[:1].lower()}{same[1:]}"
        elif one.verdict == OTHER_MECHANISM:
            same = "The samples show another mechanism."
        text = f"- *{one.finding.text}*: {one.verdict}, since {one.reason}. In the paper: {mechanism.paper}. "
        lines.append(_wrapped(f"{text}On this machine: {mechanism.here}. {same}", indent="  "))
    return lines


def _wrapped(text: str, indent: str = "") -> str:
    return fill(text, 120, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _published(finding: Finding) -> str:
    """Return the published ratio, with the two published numbers if there are two."""
    if isinstance(finding.published, float):
        return f"{finding.ratio:.3g}"
    return f"{finding.ratio:.3g} ({finding.published[0]:g} / {finding.published[1]:g})"


def _arms(result: StudyResult) -> str:
    head = ["arm", "events/s", "MB/s", "CPU efficiency", "limited by", "share of the limit", "read per byte"]
    rows = [_cells(one) for one in result.arms[:_ARMS_MAX]]
    return table([*head, "over the network per byte", "calls", "times the baseline's time", "lost"], rows)


def _cells(one: ArmResult) -> list[str]:
    return [
        one.name,
        "" if one.events_per_s is None else significant(one.events_per_s),
        "" if one.bytes_per_s is None else significant(one.bytes_per_s / 1e6),
        "" if one.efficiency is None else percent(one.efficiency, 1.0),
        one.bound or "",
        "" if one.limit_share is None else percent(one.limit_share, 1.0),
        "" if one.read_share is None else significant(one.read_share),
        "" if one.network_share is None else significant(one.network_share),
        "" if one.calls is None else significant(one.calls),
        "baseline" if one.is_baseline else _ratio(one.time),
        f"{one.lost}: {next(iter(one.errors), '')}"[:160] if one.lost else "",
    ]


def _arm(result: StudyResult, levels: Levels) -> ArmResult | None:
    return next((one for one in result.arms if one.levels == levels), None)


def _ratio(one: Ratio | None) -> str:
    if one is None:
        return ""
    if one.low is None or one.high is None:
        return f"{one.value:.3g} (no interval: {one.pairs} of 6 pairs)"
    return f"{one.value:.3g} ({one.low:.3g} to {one.high:.3g})"


def _value(value: float, unit: str) -> str:
    # Whole numbers are printed without decimals, which would suggest a precision that the papers do not have.
    shown = f"{value:,.0f}".replace(",", " ") if value >= 10 and value == round(value) else significant(value)
    return f"{shown} {unit}".strip()


_INDEX_HEAD = """# Earlier studies, repeated

Five studies of storage systems and analysis jobs, published between 2008 and 2013, are repeated with [the
lab](../guides/studies.md) on one machine: on real servers, and on emulated disks and networks.

## Findings

A finding is a published ratio of two arms. Each has bounds around the published ratio, and the cause that the paper
gives. Both arms use the same client, unless the finding is about clients. Figures whose values are not in the text,
results that follow from the number of cores, and results that follow from a setting are not findings.

| verdict | meaning |
|---|---|
| found again | the whole interval of the measured ratio is within the bounds, and the published mechanism is at work |
| same ratio, another mechanism | the interval is within the bounds, but the samples show another cause |
| not found | the whole interval is outside the bounds |
| not sure | the interval contains a bound, or there are fewer than six pairs of samples |
| not judged | other programs kept the machine busy, the CPU hides the storage, or the limit of an arm is unknown |
| not measured | no round has samples of both arms |

The samples show a mechanism in two ways: by the limit of an arm, and by counts of read calls, bytes and CPU time per
event. The limit is the CPU, the storage, or latency, if the jobs wait although neither processors nor storage are busy.

## Conditions

- **Machine.** Jobs and servers share a few cores. CPU efficiency is the CPU time per time of a core that the jobs can
  use: of one core per job, or of all cores if there are more jobs than cores.
- **Files** resemble ALICE's event summary data (ESD) of 2009: 534 branches with data, about 720 baskets per 100 events,
  zlib level 1. They are evicted from the page cache before each sample.
- **Disks** are loop devices with the rate and the seek times of a disk of that time. RAIDs consist of such disks with
  btrfs.
- **Networks** are a link of 1 Gb/s between two network namespaces, and a proxy with the latency of a wide-area network.
- **Storage systems** that are not available have replacements: MooseFS for Lustre, GlusterFS for GPFS, XRootD for DPM.

`make studies` runs all studies and writes these pages; `make studies STUDY=esd-table-2` runs one. With `QUICK=1`, it
takes minutes, checks that the studies run, and leaves these pages unchanged.

## Results
"""
_PROVISIONAL = """
:::{warning}
Some studies have provisional values, and no answer. Their sections give the reason.
:::
"""
