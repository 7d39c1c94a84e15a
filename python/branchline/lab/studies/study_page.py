"""Write the report of a study, the self-contained study.html, and the table of its samples as Parquet, with one row per
job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup

from branchline.base import palette
from branchline.base.palette import COLOURS
from branchline.base.quantities import MB, duration, percent, significant
from branchline.base.texts import printable
from branchline.base.whole_files import whole_file, write_whole
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample, load_kept
from branchline.lab.statistics import Ratio
from branchline.lab.studies.job_comparison import differences, job_charts, network_charts, spreads
from branchline.lab.studies.storage_limits import limit_words
from branchline.lab.studies.study_pictures import (
    IntervalRow,
    Series,
    StudyPicture,
    intervals,
    is_number,
    lines,
    offset_charts_of,
    offset_remark,
)
from branchline.lab.studies.study_result import ArmResult, StudyResult, result_of
from branchline.lab.studies.verdict import answer, sentences
from branchline.lab.study import Study
from branchline.records.result_files.job_files import table_of

if TYPE_CHECKING:
    import pyarrow

PAGE, TABLE = "study.html", "samples.parquet"
#: A factor gets a plot if it has at least the first number of numeric levels, or at least the second number of any
#: levels. With fewer levels, the table is sufficient.
_LEVELS_MIN, _NAMES_MIN = 2, 3
#: The reason that the table shows instead of a ratio of wall times.
_NOT_COMPARED = {"CPU time": "machine busy", "nothing": "both limited by the processors"}


def write_report(folder: Path) -> Path:
    """Write the report and the table of samples to a study's directory. Raises OptionError, StorageError."""
    kept = load_kept(folder)
    samples = SampleFile(folder / SAMPLES).read()
    found = result_of(kept.study, kept.seed, samples)
    write_samples(folder / TABLE, samples)
    per_job = differences(kept.study, samples)
    rows = [_arm_row(one) for one in found.arms]
    page = environment().get_template(PAGE)
    html = page.render(
        study=kept.study,
        found=found,
        answer=answer(found),
        remarks=[one for one in sentences(found) if one != answer(found) and not one.startswith("control:")],
        controls=[(one.name, _ratio(one.time), one.time is not None and one.time.differs) for one in found.controls],
        rows=rows,
        # Columns that are empty in all rows are hidden.
        columns={name for one in rows for name, value in one.items() if value},
        has_phases=any(one.phases for one in found.arms),
        limits=_limits(kept.study, found),
        pictures=_pictures(kept.study, found),
        offsets=offset_charts_of(kept.study, folder),
        offset_remark=offset_remark(kept.study, folder),
        per_job=per_job,
        spreads=spreads(samples),
        job_charts=job_charts(kept.study, samples),
        network_charts=network_charts(samples),
        command=f"{kept.command} --seed {kept.seed}" if kept.command else "",
        seed=kept.seed,
        spent=duration(found.spent_s),
        version=kept.branchline,
        first=samples[0].at if samples else "",
        hosts=sorted({f"{job.host}, {job.processor}" for one in samples for job in one.jobs if job.host}),
        parquet=TABLE,
        places=", ".join(sorted({one.place for one in samples if one.place})),
    )
    path = folder / PAGE
    write_whole(path, html.encode())
    return path


def kept_result(folder: Path) -> StudyResult:
    """Compute the result from the samples in a study's directory. Raises OptionError."""
    kept = load_kept(folder)
    return result_of(kept.study, kept.seed, SampleFile(folder / SAMPLES).read())


def _arm_row(one: ArmResult) -> dict[str, object]:
    """Return the cells of an arm's row in the table of arms."""
    return {
        "name": one.name,
        "levels": list(one.levels.values()),
        "is_baseline": one.is_baseline,
        "samples": one.samples,
        "lost": one.lost,
        "wall": "" if one.wall_s is None else duration(one.wall_s),
        "events": "" if one.events_per_s is None else significant(one.events_per_s),
        "megabytes": "" if one.bytes_per_s is None else significant(one.bytes_per_s / MB),
        "efficiency": "" if one.efficiency is None else percent(one.efficiency, 1.0),
        "time": "baseline" if one.is_baseline else _NOT_COMPARED.get(one.basis) or _ratio(one.time),
        "differs": one.basis == "wall time" and one.time is not None and one.time.differs,
        "cpu": _ratio(one.cpu),
        "bound": one.bound or "",
        "limit": "" if one.limit_bytes_per_s is None else significant(one.limit_bytes_per_s / MB),
        "limit_share": "" if one.limit_share is None else percent(one.limit_share, 1.0),
        "read": "" if one.read_share is None else significant(one.read_share),
        "network": "" if one.network_share is None else significant(one.network_share),
        "calls": "" if one.calls is None else significant(one.calls),
        "phases": [(name, duration(seconds)) for name, seconds in one.phases.items() if seconds > 0],
        "errors": list(one.errors.items()),
    }


def _limits(study: Study, found: StudyResult) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return, for each arm, the descriptions of its limits, their rates in MB/s, and the arm's read rate as a share of
    each limit.
    """
    staged = {one.name for one in study.arms() if one.settings.stage}
    return [
        (
            arm.name,
            [
                (
                    limit_words(one.kind, is_staged=arm.name in staged),
                    significant(one.bytes_per_s / MB),
                    "" if one.share is None else percent(one.share, 1.0),
                )
                for one in arm.limits
            ],
        )
        for arm in found.arms
        if arm.limits
    ]


def _ratio(one: Ratio | None) -> str:
    if one is None:
        return ""
    if one.low is None or one.high is None:
        return f"{one.value:.3g} ({one.pairs} pairs: too few)"
    return f"{one.value:.3f} ({one.low:.3f} to {one.high:.3f})"


def _pictures(study: Study, found: StudyResult) -> list[StudyPicture]:
    """Return the plots that papers usually show: rates, efficiency and bytes against each factor, and the ratios of all
    arms.
    """
    made = []
    for factor in study.factors:
        levels = [one.name for one in factor.levels]
        if sum(map(is_number, levels)) >= _LEVELS_MIN or len(levels) >= _NAMES_MIN:
            made += _against(found, factor.name, levels)
    ratios = [
        IntervalRow(one.name, one.time.value, one.time.low, one.time.high)
        for one in found.arms
        if one.time is not None and one.basis == "wall time"
    ]
    if ratios:
        unit = "times the time of the baseline for the same work (left is faster)"
        made.append(intervals("Beside the baseline", unit, ratios))
    return made


def _against(found: StudyResult, factor: str, levels: Sequence[str]) -> list[StudyPicture]:
    def megabytes(one: ArmResult) -> float | None:
        return None if one.bytes_per_s is None else one.bytes_per_s / MB

    def limit(one: ArmResult) -> float | None:
        return None if one.limit_bytes_per_s is None else one.limit_bytes_per_s / MB

    def part(value: float | None) -> float | None:
        return None if value is None else 100 * value

    axis = {"jobs": "jobs at once"}.get(factor, factor)
    wanted: list[tuple[str, str, Callable[[ArmResult], float | None], Callable[[ArmResult], float | None] | None]] = [
        ("Throughput of all jobs", "MB of files/s", megabytes, limit),
        ("Events of all jobs", "events/s", lambda one: one.events_per_s, None),
        ("CPU efficiency", "% of the usable cores", lambda one: part(one.efficiency), None),
        ("Bytes read", "bytes for each byte of the files", lambda one: one.read_share, None),
        ("Bytes over the network", "bytes for each byte of the files", lambda one: one.network_share, None),
    ]
    made = []
    for title, unit, value, bound in wanted:
        series = _series(found, factor, levels, value, bound)
        if any(one is not None for line in series for one in line.values):
            made.append(lines(f"{title} against {axis}", unit, levels, series, axis))
    return made


def _series(
    found: StudyResult,
    factor: str,
    levels: Sequence[str],
    value: Callable[[ArmResult], float | None],
    bound: Callable[[ArmResult], float | None] | None,
) -> list[Series]:
    """Return a line for each combination of levels of the other factors, and a line for each distinct limit."""
    rows: dict[str, dict[str, ArmResult]] = {}
    for one in found.arms:
        others = ", ".join(f"{level}" for name, level in one.levels.items() if name != factor)
        rows.setdefault(others or "jobs", {})[one.levels[factor]] = one
    made, limits = [], set()
    for number, (name, arms) in enumerate(rows.items()):
        colour = COLOURS[number % len(COLOURS)]
        made.append(Series(name, [value(arms[one]) if one in arms else None for one in levels], colour))
        if bound is not None:
            limit = [bound(arms[one]) if one in arms else None for one in levels]
            if any(one is not None for one in limit) and tuple(limit) not in limits:
                limits.add(tuple(limit))
                made.append(Series(f"limit: {name}", limit, colour, is_limit=True))
    return made


@cache
def environment() -> jinja2.Environment:
    loader = jinja2.ChoiceLoader(
        [jinja2.PackageLoader("branchline.lab.studies"), jinja2.PackageLoader("branchline.records.report")]
    )
    found = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["palette"] = palette
    return found


def _clean(value: object) -> object:
    """Sanitize and truncate untrusted names and errors."""
    return value if not isinstance(value, str) or isinstance(value, Markup) else printable(value[:4000])


# --- the table of samples ---------------------------------------------------------------------------------------------


def write_samples(path: Path, samples: Sequence[StudySample]) -> None:
    """Write the table of samples. Raises StorageError."""
    import pyarrow.parquet

    schema = _sample_schema()
    rows = [row for one in samples for row in _sample_rows(one)]
    columns = {name: [row[name] for row in rows] for name in schema.names}
    with whole_file(path) as temporary:
        pyarrow.parquet.write_table(table_of(columns, schema), temporary, compression="zstd")


def _sample_schema() -> pyarrow.Schema:
    import pyarrow

    text, number, whole = pyarrow.string(), pyarrow.float64(), pyarrow.int64()
    return pyarrow.schema(
        [
            ("round", whole),
            ("position", whole),
            ("kind", text),
            ("arm", text),
            ("at", text),
            ("session", whole),
            ("sample_wall_s", number),
            ("file_bytes", whole),
            ("cached_bytes", whole),
            ("cold_remark", text),
            ("others_share", number),
            ("stolen_share", number),
            ("throttled", whole),
            ("cores", whole),
            ("device_bytes", whole),
            ("device_busy_share", number),
            ("network_bytes", whole),
            ("loopback_bytes", whole),
            ("notes", text),
            ("sample_error", text),
            ("job", whole),
            ("begin_s", number),
            ("wall_s", number),
            ("cpu_s", number),
            ("events", whole),
            ("bytes_read", whole),
            ("read_calls", whole),
            ("disk_bytes", whole),
            ("host", text),
            ("processor", text),
            ("error", text),
        ]
    )


def _sample_rows(one: StudySample) -> list[dict[str, object]]:
    beside = one.surroundings
    common = {
        "round": one.round,
        "position": one.position,
        "kind": one.kind,
        "arm": one.arm,
        "at": one.at,
        "session": one.session,
        "sample_wall_s": one.wall_s,
        "file_bytes": one.file_bytes,
        "cached_bytes": one.cached_bytes,
        "cold_remark": one.cold_remark,
        "others_share": beside.others_share,
        "stolen_share": beside.stolen_share,
        "throttled": beside.throttled,
        "cores": beside.cores,
        "device_bytes": beside.device_bytes,
        "device_busy_share": beside.device_busy_share,
        "network_bytes": beside.network_bytes,
        "loopback_bytes": beside.loopback_bytes,
        "notes": "; ".join(beside.notes),
        "sample_error": one.error,
    }
    own = (
        "begin_s",
        "wall_s",
        "cpu_s",
        "events",
        "bytes_read",
        "read_calls",
        "disk_bytes",
        "host",
        "processor",
        "error",
    )
    jobs = [{"job": job.number, **{name: getattr(job, name) for name in own}} for job in one.jobs]
    return [{**common, **job} for job in jobs or [{"job": None, **dict.fromkeys(own)}]]
