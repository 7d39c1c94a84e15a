"""The samples of a study as Parquet: a row for each job."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from branchline.base.whole_files import whole_file
from branchline.lab.sampling.samples import StudySample
from branchline.records.result_files.arrow_tables import table_of


def write_samples(path: Path, samples: Sequence[StudySample]) -> None:
    """Writes the table. Raises StorageError."""
    import pyarrow.parquet

    schema = _schema()
    rows = [row for one in samples for row in _rows(one)]
    columns = {name: [row[name] for row in rows] for name in schema.names}
    with whole_file(path) as temporary:
        pyarrow.parquet.write_table(table_of(columns, schema), temporary, compression="zstd")


def _schema() -> Any:
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


def _rows(one: StudySample) -> list[dict[str, object]]:
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
