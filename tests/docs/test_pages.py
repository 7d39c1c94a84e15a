"""Every page can be followed to the letter: its snippets run in order, in a folder with the data of the demo."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import REPOSITORY
from tests.docs.snippets import snippets_of
from tests.sampled import long_but

pytestmark = pytest.mark.slow

#: These change the sources: `make docs-recipes` follows them in a copy of the repository.
RECIPES = REPOSITORY / "docs" / "extending"
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
PAGES = [page for page in PAGES if not page.is_relative_to(RECIPES) and "generated" not in page.parts]
RUN = [page for page in PAGES if any(one.kind in ("python", "shell") for one in snippets_of(page))]
#: These take longest, and most of what they do is on other pages, too.
LONG = [
    REPOSITORY / "docs" / name
    for name in (
        "guides/site-admin.md",
        "guides/data-manager.md",
        "guides/advice.md",
        "guides/ao2d.md",
        "guides/cookbook.md",
        "moving/from-root.md",
    )
]


def programs_of_root() -> Path:
    """The folder with `hadd`; ROOT itself is not imported here, as it takes long."""
    found = importlib.util.find_spec("ROOT")
    assert found is not None, "install ROOT: make peer-packages"
    assert found.origin is not None
    return Path(found.origin).parent / "bin"


@pytest.fixture(scope="session")
def demo_data(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The data that the tutorial makes with `branchline demo-data`, made once for all pages."""
    from branchline.trains.demo.demo_files import make_data

    session = tmp_path_factory.getbasetemp()
    folder = (session if worker_id == "master" else session.parent) / "documentation" / "demo-data"
    make_data(folder, files=4, events_per_file=50, seed=1, workers=1)
    return folder


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "page",
    long_but(RUN, [one for one in RUN if one not in LONG]),
    ids=lambda page: page.relative_to(REPOSITORY).as_posix(),
)
def test_the_page_can_be_followed(page: Path, demo_data: Path, tmp_path: Path) -> None:
    shutil.copytree(demo_data, tmp_path / "demo-data")
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{programs_of_root()}:{os.environ['PATH']}",
        "PYTHONPATH": str(REPOSITORY),
        "COLUMNS": "120",
        "MPLBACKEND": "agg",
        "XDG_CACHE_HOME": str(demo_data.parent / "cache"),
    }
    run = subprocess.run(
        [sys.executable, "-m", "tests.docs.follow", str(page)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=220,
    )
    assert run.returncode == 0, f"{run.stdout[-3000:]}\n{run.stderr[-6000:]}"
