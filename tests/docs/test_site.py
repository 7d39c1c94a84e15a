"""The site builds without a warning, and needs nothing from another host when it is read."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

#: What a browser loads by itself: scripts, styles, fonts, pictures. Links that a reader follows may lead anywhere.
LOADED = re.compile(r"<(?:script|img|iframe|source)[^>]*\ssrc=\"([^\"]+)\"|<link[^>]*\shref=\"([^\"]+)\"")
IN_STYLES = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")


@pytest.mark.timeout(240)
def test_the_site_is_whole_and_needs_no_other_host(repository: Path, tmp_path: Path) -> None:
    site = built(repository, tmp_path)
    check_that_nothing_is_loaded_from_another_host(site)
    check_that_every_command_and_public_name_has_an_entry(site)


def built(repository: Path, folder: Path) -> Path:
    """The site, made from a copy of the sources, so that nothing is written into them."""
    ignored = shutil.ignore_patterns("_build", "generated", "__pycache__")
    shutil.copytree(repository / "docs", folder / "docs", ignore=ignored)
    for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(repository / name, folder)
    for sources in ("crates", "python"):
        shutil.copytree(repository / sources, folder / sources, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copytree(repository / "benches" / "results", folder / "benches" / "results")
    build = ["-b", "html", "-W", "--keep-going", "--quiet", "docs", "site"]
    for command in (["-m", "docs.generate"], ["-m", "sphinx", *build]):
        done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
    return folder / "site"


def check_that_nothing_is_loaded_from_another_host(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    for page in [*pages, *site.rglob("*.css")]:
        pattern = LOADED if page.suffix == ".html" else IN_STYLES
        for found in pattern.findall(page.read_text(encoding="utf-8")):
            for target in filter(None, found):
                assert not re.match(r"(https?:)?//", target), f"{page.name} loads {target}"


def check_that_every_command_and_public_name_has_an_entry(site: Path) -> None:
    from docs.generate.commands import names

    import branchline

    commands = (site / "reference" / "generated" / "commands.html").read_text(encoding="utf-8")
    for name in names():
        assert f"branchline {name}" in commands
    python = (site / "reference" / "generated" / "python.html").read_text(encoding="utf-8")
    for name in branchline.__all__:
        assert name.startswith("_") or f"branchline.{name}" in python or f'id="branchline.{name}"' in python
