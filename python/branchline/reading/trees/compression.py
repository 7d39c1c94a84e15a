"""Compression: the setting that a file or a branch was written with."""

from __future__ import annotations

from dataclasses import dataclass

# Names of codecs by the numbers that ROOT gives them.
CODECS = {1: "zlib", 2: "lzma", 3: "old CS", 4: "lz4", 5: "zstd"}


@dataclass(frozen=True)
class Compression:
    """The setting that a branch was written with: ZLIB, LZMA, LZ4, ZSTD or OLD, and its level."""

    name: str
    level: int

    @classmethod
    def of(cls, setting: int) -> Compression | None:
        """That of a setting of ROOT, 100 times the codec plus the level; None for no compression."""
        algorithm, level = divmod(setting, 100)
        if setting <= 0 or level == 0 or algorithm == 0:
            return None
        return cls(CODECS.get(algorithm, "zlib").upper().removesuffix(" CS"), level)

    def __repr__(self) -> str:
        return f"{self.name}({self.level})"
