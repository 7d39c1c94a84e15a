"""`python -m tests.pages.serve_demo DATA DIR PORT`: a control room with jobs, wagons and a dataset of the demo.

DATA is the folder that `branchline demo-data` made. The jobs run here, one after the other, and report; then the
control room is served until Ctrl-C.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

WAGONS = Path(__file__).resolve().parents[2] / "python" / "branchline" / "trains" / "demo" / "demo_wagons.py"
BRANCHLINE = (sys.executable, "-m", "branchline")
HERE, ELSEWHERE = "home.example", "far.example"


@dataclass(frozen=True)
class DemoJob:
    """A run of the demo's train: its name, the site of its workers, and further options."""

    name: str
    site: str
    options: tuple[str, ...] = ()


JOBS = (
    DemoJob("planned", HERE),
    DemoJob("plain", HERE, ("--experiment", "access=plain", "--workers", "1")),
    DemoJob("slow-link", ELSEWHERE, ("--experiment", "throttle=latency=20ms,bandwidth=2MB/s")),
    DemoJob("lost-files", ELSEWHERE, ("--experiment", "fault=missing,every=7,seed=4", "--skip-bad-files")),
)


class Room:
    """The control room in a process of its own."""

    def __init__(self, folder: Path, port: str) -> None:
        self.process = subprocess.Popen(
            [*BRANCHLINE, "serve", str(folder), "--port", port], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().removeprefix("open ").strip()
        if not self.address:
            sys.exit(self.process.wait())
        self.base, _, self._token = self.address.partition("/?token=")

    def do(self, action: str, **fields: str) -> str:
        """What a form does; gives the page that it leads to."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        request = urllib.request.Request(f"{self.base}/do/{action}", urlencode(fields).encode(), headers)
        with urllib.request.urlopen(request, timeout=280) as answer:
            page: str = json.load(answer)["page"]
        return page

    def run(self, job: DemoJob, dataset: Path, out: Path) -> None:
        """Runs a job that reports here. One that fails is a job to be seen, too."""
        command = [*BRANCHLINE, "run", str(WAGONS), str(dataset), "-o", str(out), "--force", "--no-reuse"]
        settings = {"BRANCHLINE_SITE": job.site, "BRANCHLINE_REPORT_TOKEN": self._token}
        given = [*command, "--pictures", "none", "--report-to", self.base, *job.options]
        subprocess.run(given, env=os.environ | settings, check=False)


def written_dataset(data: Path, folder: Path) -> Path:
    """A list of the demo's files, of which the second half lie at a storage element elsewhere."""
    files = sorted(data.resolve().glob("collisions-*.root"))
    near, far = folder / "near", folder / "far"
    for place, chosen in ((near, files[: (len(files) + 1) // 2]), (far, files[(len(files) + 1) // 2 :])):
        place.mkdir(parents=True, exist_ok=True)
        for file in chosen:
            if not (place / file.name).exists():
                (place / file.name).symlink_to(file)
    fileset = {
        "collisions": {
            "files": {str(one): "events" for place in (near, far) for one in sorted(place.iterdir())},
            "sites": {str(near): HERE, str(far): ELSEWHERE},
        }
    }
    path = folder / "collisions.json"
    path.write_text(json.dumps(fileset, indent=1))
    return path


def main(data: Path, folder: Path, port: str) -> int:
    """Fills the control room and serves it until Ctrl-C or SIGTERM, which the server gets as well."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    room = Room(folder, port)
    try:
        room.do("upload", path="wagons.py", text=WAGONS.read_text(encoding="utf-8"), group="demo")
        dataset = written_dataset(data, folder / "demo-files")
        page = room.do(
            "save-dataset", name="collisions", files=str(dataset), group="demo", description="The demo's collisions"
        )
        room.do("enable", all_of="demo", dataset=page.removeprefix("/datasets/"), to="on")
        for job in JOBS:
            room.run(job, dataset, folder / "demo-results" / job.name)
        print(f"\nopen {room.address}\nIt is served until Ctrl-C.", flush=True)
        return room.process.wait()
    except KeyboardInterrupt:
        return room.process.wait()
    finally:
        room.process.terminate()
        room.process.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
