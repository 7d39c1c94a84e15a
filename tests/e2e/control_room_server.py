"""`python -m tests.e2e.control_room_server FOLDER PORT`: `branchline serve`, which notes every batch that comes."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from branchline.control.room import ControlRoom
from branchline.control.web import server
from branchline.records.sending.message import ReportBatch

RECEIVED = "received.jsonl"
_noting = threading.Lock()


class NotingRoom(ControlRoom):
    def take(self, batch: ReportBatch, reporter: str = "") -> bool:
        """Takes a batch, and writes it behind those that came before, with whether it was new."""
        taken = super().take(batch, reporter)
        with _noting, (self.folder / RECEIVED).open("a") as file:
            file.write(json.dumps({"taken": taken, **batch.as_dict()}) + "\n")
        return taken


if __name__ == "__main__":
    server.ControlRoom = NotingRoom  # type: ignore[misc]
    server.serve(Path(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]), ready=lambda _: None)
