"""A fileset may give the checksum of a file, which is then its version."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline import Dataset
from branchline.errors import DatasetError

LIST = """
[data.files."{path}"]
object_path = "events"
version = "{version}"
"""


@pytest.mark.parametrize(
    ("given", "version"),
    [
        ("adler32:0a1b2c3d", "adler32:0a1b2c3d"),
        ("adler32:A1B2C3D", "adler32:0a1b2c3d"),
        (f"md5:{'ab' * 16}", f"md5:{'ab' * 16}"),
    ],
)
def test_a_local_file_has_the_version_of_the_list(tmp_path: Path, given: str, version: str) -> None:
    (tmp_path / "a.root").write_bytes(b"content")
    (tmp_path / "data.toml").write_text(LIST.format(path=tmp_path / "a.root", version=given))
    [file] = Dataset.of(tmp_path / "data.toml").with_absolute_paths()
    assert (file.version, file.size_bytes, file.tree) == (version, 7, "events")


@pytest.mark.parametrize("version", ["", "0a1b2c3d", "adler32:", "adler32:0a1b2c3d4", "adler32:xyz", "crc1:0a1b2c3d"])
def test_what_is_no_checksum_is_refused(tmp_path: Path, version: str) -> None:
    (tmp_path / "data.toml").write_text(LIST.format(path="a.root", version=version))
    with pytest.raises(
        DatasetError, match=r"data\.toml: version or size_bytes of .*a\.root.*is not a checksum.*adler32"
    ):
        Dataset.of(tmp_path / "data.toml")


def test_several_files_have_no_common_version(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.root").write_bytes(b"content")
    files = {str(tmp_path / "*.root"): {"object_path": "events", "version": "adler32:1"}}
    with pytest.raises(DatasetError, match="which matches 2 files"):
        Dataset.of({"data": {"files": files}})
