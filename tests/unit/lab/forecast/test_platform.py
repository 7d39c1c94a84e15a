"""Platforms come from files, and say what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.lab.simulation.platform import Disk, Link, Nodes, Platform, Storage, load_platform

TEXT = """
[[disks]]
name = "raid"
bytes_per_s = 1.2e9
operations_per_s = 900

[[links]]
name = "wan"
bytes_per_s = 1.25e9
round_trip_s = 0.063

[[storages]]
name = "far"
disk = "raid"
links = ["wan"]
window_bytes = 4_000_000

[[nodes]]
name = "farm"
count = 63
cores = 16
bytes_per_s = 1.25e9
"""


def test_a_file_says_what_jobs_share(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text(TEXT)
    found = load_platform(path)
    assert found == Platform(
        storages=(Storage("far", disk="raid", links=("wan",), window_bytes=4e6),),
        nodes=(Nodes("farm", 63, 16, 1.25e9),),
        disks=(Disk("raid", 1.2e9, 900.0),),
        links=(Link("wan", 1.25e9, 0.063),),
    )
    assert found.slots_count == 63 * 16
    assert Platform.from_plain(found.to_plain()) == found


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("round_trip_s", "round_trip", "links has no 'round_trip'"),
        ("count = 63\n", "", "not complete"),
        ("[[disks]]", "platform_version = 99\n[[disks]]", "version 99"),
        ("[[disks]]", "caches = 5\n[[disks]]", "caches is 5, not a list of tables"),
        ("[[disks]]", "[[disks]", "invalid TOML"),
    ],
)
def test_what_a_file_may_not_say_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "site.toml"
    path.write_text(TEXT.replace(old, new, 1))
    with pytest.raises(OptionError, match=said) as caught:
        load_platform(path)
    assert caught.value.path == str(path)
