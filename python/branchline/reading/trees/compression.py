"""Compression settings of files and branches."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.codecs import codec_of_setting


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
