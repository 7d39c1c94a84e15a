"""Follows the pages under docs/extending to the letter: python -m tests.docs.recipes [PAGE]

Each page has a copy of the sources. It shares the environment and the compiled dependencies of the repository, and
nothing else: what a page changes stays in the copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PAGES = REPOSITORY / "docs" / "extending"


def copied(folder: Path) -> Path:
    """A copy of the sources as they are now, with the compiled module."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    for compiled in (REPOSITORY / "python" / "branchline").glob("_core*.so"):
        shutil.copy2(compiled, folder / "python" / "branchline")
    subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
    return folder


def followed(page: Path) -> bool:
    """Whether every step of a page does what the page says."""
    with tempfile.TemporaryDirectory(prefix="branchline-recipe-") as folder:
        copy = copied(Path(folder))
        environment = os.environ | {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            # The copy's package is found before the installed one, by the programs that a page calls, too.
            "PYTHONPATH": f"{copy / 'python'}:{copy}",
            "CARGO_TARGET_DIR": str(REPOSITORY / "target" / "recipes"),
        }
        command = [sys.executable, "-m", "tests.docs.follow", str(page)]
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode == 0


def main() -> None:
    chosen = [PAGES / f"{name}.md" for name in sys.argv[1:]] or sorted(PAGES.glob("*.md"))
    failed = [page.name for page in chosen if not followed(page)]
    print(f"{len(chosen) - len(failed)} passed, {len(failed)} failed")
    sys.exit(f"these pages cannot be followed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
