"""A control room in a process of its own, and what came to it."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import Request, urlopen

from tests.e2e.control_room_server import RECEIVED
from tests.patience import HANG_S
from tests.stores.servers import Process, free_port

from branchline.base.plain import from_plain
from branchline.control.reports.jobs import JobsPage
from branchline.records.sending.message import ReportBatch

TOKEN = "a-token-that-nobody-may-see-in-any-text"


@dataclass
class Room:
    """A control room in a process, that notes all that comes."""

    folder: Path
    port: int
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def received(self) -> list[ReportBatch]:
        """The batches that came, each once."""
        path = self.folder / RECEIVED
        lines = path.read_text().splitlines() if path.exists() else []
        batches = [ReportBatch.from_dict(json.loads(line)) for line in lines]
        return list({(one.identity.job, one.source, one.number): one for one in batches}.values())

    def of_job(self, name: str) -> list[ReportBatch]:
        """Those of the job with this name."""
        return [one for one in self.received() if one.identity.name == name]

    def sent_again(self) -> int:
        """How many batches came although they had come before."""
        return len((self.folder / RECEIVED).read_text().splitlines()) - len(self.received())

    def shown(self) -> JobsPage:
        """The jobs as the server shows them."""
        request = Request(f"{self.url}/jobs.json", headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(request, timeout=HANG_S) as answer:
            found = json.load(answer)
        page: JobsPage = from_plain(JobsPage, found.get("page", found))
        return page

    def wait_for(self, is_there: Callable[[list[ReportBatch]], object]) -> None:
        end_s = time.monotonic() + HANG_S
        while not is_there(self.received()):
            assert time.monotonic() < end_s, self.received()
            time.sleep(0.05)


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[Room]:
    """A room in this folder."""
    folder.mkdir()
    (folder / "token").write_text(TOKEN)
    port = free_port()
    process = Process([sys.executable, "-m", "tests.e2e.control_room_server", str(folder), str(port)], port, log)
    process.start()
    try:
        yield Room(folder, port, process)
    finally:
        process.kill()
