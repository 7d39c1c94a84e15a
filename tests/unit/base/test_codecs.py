"""Codecs are the same in settings, records and advice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from branchline import _core
from branchline.base.codecs import CODECS, DEFAULT_CODEC, NO_CODEC, Compression, codec_named, codec_of_setting
from branchline.records.diagnosis.figures import codec_name
from branchline.records.diagnosis.job_advice import advise_job
from branchline.records.sensors.record import JobRecord

RECORD = Path(__file__).parents[1] / "records" / "report" / "records" / "lzma.json"


@pytest.mark.parametrize(
    ("setting", "codec", "shown"),
    [
        (101, "zlib", "ZLIB(1)"),
        (209, "lzma", "LZMA(9)"),
        (301, "old CS", "OLD(1)"),
        (404, "lz4", "LZ4(4)"),
        (505, "zstd", "ZSTD(5)"),
        (1, "zlib", "None"),
        (705, "unknown codec 7", "UNKNOWN CODEC 7(5)"),
        (0, "zlib", "None"),
    ],
)
def test_a_setting_of_root_names_its_codec(setting: int, codec: str, shown: str) -> None:
    assert codec_of_setting(setting) == codec
    assert str(Compression.of(setting)) == shown


def test_names_numbers_and_levels_are_those_of_the_engine() -> None:
    own = {one.name: (one.number, one.level) for one in (*CODECS, NO_CODEC)}
    assert own == {one.name: (one.root_number, one.default_level or 0) for one in _core.CODECS}


def test_a_record_shows_codecs_in_their_usual_spelling() -> None:
    assert codec_name("old CS, none") == "CS"
    assert codec_name("lzma, zstd") == "LZMA, zstd"
    assert codec_name("brotli") == "brotli"
    assert codec_name(None) == ""


def test_slow_codecs_are_those_that_take_longer_than_the_default() -> None:
    default = codec_named(DEFAULT_CODEC.partition(":")[0])
    assert [one.name for one in CODECS if one.is_slow] == ["lzma", "old CS", "zlib"]
    assert default.setting == DEFAULT_CODEC
    assert not codec_named("brotli").is_slow


@pytest.mark.parametrize("codec", [one.name for one in CODECS if one.is_slow])
def test_a_job_that_read_a_slow_codec_is_advised_to_recompress(codec: str) -> None:
    job = json.loads(RECORD.read_text().replace('"lzma', f'"{codec}'))
    assert "codec" in [one.id for one in advise_job(JobRecord.from_dict(job))]
