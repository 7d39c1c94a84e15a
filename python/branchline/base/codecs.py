"""The compression codecs of ROOT files. Their names, ROOT numbers and levels duplicate `branchline._core.CODECS`, so
that commands start without importing `_core`; a test compares both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

#: The codecs that Branchline can write; "none" stands for no compression.
CodecName = Literal["zlib", "lzma", "lz4", "zstd", "none"]
#: Default codec and level of new files.
DEFAULT_CODEC = "zstd:5"


@dataclass(frozen=True)
class Codec:
    """A compression codec.

    ``name`` is used in records and options, ``number`` in ROOT's compression settings, and ``title`` in prose.
    ``level`` is the usual level, 0 if Branchline does not write the codec. ``parquet`` lists the codec's names in
    Parquet files; new files get the first one. ``decompress_s_per_byte`` is the CPU time per byte of decompressed data,
    measured with columns of floats on a server from 2023.
    """

    name: str
    number: int
    title: str
    level: int
    decompress_s_per_byte: float
    parquet: tuple[str, ...] = ()

    @property
    def setting(self) -> str:
        """The codec and its usual level as an option's value, such as ``zstd:5``."""
        return f"{self.name}:{self.level}"

    @property
    def is_slow(self) -> bool:
        """Whether decompression is slower than with the default codec of new files."""
        return self in CODECS and self.decompress_s_per_byte > _DEFAULT.decompress_s_per_byte


_DEFAULT = Codec("zstd", 5, "zstd", 5, 4.5e-9, ("zstd",))
NO_CODEC = Codec("none", 0, "", 0, 0.0, ("none", "uncompressed"))
#: All codecs, slowest decompression first.
CODECS = (
    Codec("lzma", 2, "LZMA", 7, 4.0e-8),
    Codec("old CS", 3, "CS", 0, 1.5e-8),
    Codec("zlib", 1, "zlib", 1, 6.5e-9, ("gzip",)),
    _DEFAULT,
    Codec("lz4", 4, "LZ4", 4, 1.3e-9, ("lz4", "lz4_raw")),
)
#: The codecs that Branchline can write, with their usual levels, for help texts.
USUAL_SETTINGS = ", ".join(one.setting for one in reversed(CODECS) if one.level)
_BY_NAME = {one.name: one for one in (*CODECS, NO_CODEC)}


def codec_named(name: str) -> Codec:
    """Return the codec with this name. An unknown codec is assumed to be as fast as zlib."""
    return _BY_NAME.get(name) or Codec(name, 0, name, 0, _BY_NAME["zlib"].decompress_s_per_byte)


def codec_of_setting(setting: int) -> str:
    """Return the name of the codec in a ROOT compression setting, which is 100 times the codec's number plus the level.
    Settings below 100 predate the other codecs and mean zlib.
    """
    number = setting // 100 or 1
    return next((one.name for one in CODECS if one.number == number), f"unknown codec {number}")


@dataclass(frozen=True)
class Compression:
    """The compression setting of a branch: ZLIB, LZMA, LZ4, ZSTD or OLD, and its level."""

    name: str
    level: int

    @classmethod
    def of(cls, setting: int) -> Compression | None:
        """Decode ROOT's setting, 100 times the codec plus the level; None for no compression."""
        algorithm, level = divmod(setting, 100)
        if setting <= 0 or level == 0 or algorithm == 0:
            return None
        return cls(codec_of_setting(setting).upper().removesuffix(" CS"), level)

    def __repr__(self) -> str:
        return f"{self.name}({self.level})"
