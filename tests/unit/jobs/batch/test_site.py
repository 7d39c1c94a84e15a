"""The configuration of a site: read, checked, and told from one that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.jobs.batch.site_settings import Site, load_site


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "site.toml"
    monkeypatch.setenv("BRANCHLINE_SITE_CONFIG", str(path))
    return path


def test_each_system_has_its_section(file: Path) -> None:
    file.write_text('[slurm]\npartition = "long"\ncpus = 2\n[htcondor]\ntime = 7200\noptions = ["a = b"]\n')
    assert load_site("slurm") == Site(partition="long", cpus=2)
    assert load_site("htcondor").with_options(("c = d",)) == Site(time="7200", options=("a = b", "c = d"))


def test_without_a_file_nothing_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRANCHLINE_SITE_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert load_site("slurm") == Site()
    monkeypatch.setenv("BRANCHLINE_SITE_CONFIG", str(tmp_path / "none"))
    with pytest.raises(OptionError, match="is set to a file that does not exist"):
        load_site("slurm")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('[slurm]\npartitoin = "x"\n', "did you mean 'partition'"),
        ("[slurm]\ncpus = 0\n", "invalid cpus 0"),
        ("[slurm]\ncpus = true\n", "invalid cpus True"),
        ('[slurm]\nprologue = "x"\n', "invalid prologue 'x'"),
        ("[slurm]\nmemory = []\n", r"invalid memory \[\]"),
        ('[slurm]\nmemory = "4G"\nmemory_max = "much"\n', "invalid memory_max 'much'"),
        ('[slurm]\nmemory_max = "4G"\n', "invalid memory_max '4G'"),
        ('[slurm]\nmemory = "4G"\nmemory_max = "2G"\n', "invalid memory_max '2G'"),
        ("slurm = 1\n", "slurm is not a section"),
        ("[slurm\n", "cannot read the site configuration"),
    ],
)
def test_what_is_wrong_is_named(file: Path, text: str, what: str) -> None:
    file.write_text(text)
    with pytest.raises(OptionError, match=what):
        load_site("slurm")
