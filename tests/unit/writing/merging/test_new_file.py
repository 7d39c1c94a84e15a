"""Files that Python's packages write under another name until they are whole."""

from pathlib import Path

import pytest

from branchline import _core


def test_a_file_has_its_name_only_when_it_is_published(tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    new = _core.NewFile(path, [], False)
    new.temporary.write_bytes(b"whole")
    assert not path.exists()
    new.publish()
    assert path.read_bytes() == b"whole"
    new.abandon()
    assert path.exists()


def test_an_abandoned_file_cannot_be_published(tmp_path: Path) -> None:
    path = tmp_path / "new.parquet"
    new = _core.NewFile(path, [], False)
    new.abandon()
    with pytest.raises(ValueError, match=r"new.parquet: the file is closed"):
        new.publish()
    assert list(tmp_path.iterdir()) == []


def test_an_abandoned_file_of_objects_takes_no_object_and_names_itself(tmp_path: Path) -> None:
    file = _core.WritableFile(tmp_path / "objects.root", False, "zstd")
    file.abandon()
    with pytest.raises(ValueError, match=r"objects.root: the file is closed"):
        file.add([], "TObjString", "name", "", b"")
    with pytest.raises(ValueError, match=r"objects.root: the file is closed"):
        file.finish()
    assert list(tmp_path.iterdir()) == []
