"""Installs a wheel into fresh environments without a compiler, opens a file, and runs the demo.

python tests/wheel/try_wheel.py WHEEL [EXTRAS]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

# The Python that runs this has none of our packages, and need not have the tests as one.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from tests.wheel.fresh import FreshEnvironment

DEMO_WAGONS = "branchline.trains.demo.demo_wagons"
MAKE_AND_RUN = (
    ("demo-data", "demo-data", "--files", "2", "--events", "20"),
    ("show", "demo-data/collisions-000.root:events"),
    ("merge", "demo-data/collisions.txt", "-o", "merged.root", "--verify"),
    ("verify", "merged.root", "demo-data/collisions.txt"),
)
OPEN = """
import sys
import branchline
tree = branchline.open(sys.argv[1])
assert len(tree.arrays(["px", "py"])) == tree.num_entries == 20
assert next(iter(branchline.iterate(sys.argv[1], ["pt"], aliases={"pt": "hypot(px, py)"}))).fields == ["pt"]
print("read", tree.num_entries, "events")
"""


def with_the_demo(wheel: Path, folder: Path, extras: str) -> Path:
    """Makes the demo's data and runs its train; gives a file of the data."""
    fresh = FreshEnvironment(folder / "demo")
    assert shutil.which("cc", path=fresh.variables["PATH"]) is None
    fresh.install(f"{wheel}[{extras}]")
    for words in MAKE_AND_RUN:
        print(fresh.run("branchline", *words, cwd=folder).splitlines()[-1])
    wagons = fresh.run("python", "-c", f"import {DEMO_WAGONS} as found; print(found.__file__)").strip()
    print(fresh.run("branchline", "run", wagons, "demo-data/collisions.txt", "-o", "out", cwd=folder))
    for name in ("results.root", "report.html", "job.json"):
        assert (folder / "out" / name).stat().st_size > 0, name
    return folder / "demo-data" / "collisions-000.root"


def with_the_core_alone(wheel: Path, folder: Path, file: Path) -> None:
    """Installs no extra and reads the file."""
    fresh = FreshEnvironment(folder / "core")
    fresh.install(str(wheel))
    print("installed:", ", ".join(sorted(fresh.packages())))
    print(fresh.run("python", "-c", OPEN, f"{file}:events", cwd=folder))


def main() -> None:
    wheel = Path(sys.argv[1]).resolve()
    extras = sys.argv[2] if len(sys.argv) > 2 else "all,demo"
    with tempfile.TemporaryDirectory(prefix="branchline-wheel-") as name:
        folder = Path(name)
        file = with_the_demo(wheel, folder, extras)
        with_the_core_alone(wheel, folder, file)
    print(f"{wheel.name} works with Python {sys.version.split()[0]} and no compiler")


if __name__ == "__main__":
    main()
