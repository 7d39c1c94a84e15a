"""Reports of a job to a control room: collected, kept on disk until they are sent, sent once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.reporting.identity import identity_of
    from branchline.reporting.left import SentReports, send_left
    from branchline.reporting.reporter import Reporter
    from branchline.reporting.sending import Sender
    from branchline.reporting.spool import Spool, move_reports
    from branchline.reporting.target import ReportTarget

__all__ = ["ReportTarget", "Reporter", "Sender", "SentReports", "Spool", "identity_of", "move_reports", "send_left"]

__getattr__ = lazily(
    __name__,
    {
        "branchline.reporting.identity": ("identity_of",),
        "branchline.reporting.left": ("SentReports", "send_left"),
        "branchline.reporting.sending": ("Sender",),
        "branchline.reporting.reporter": ("Reporter",),
        "branchline.reporting.spool": ("Spool", "move_reports"),
        "branchline.reporting.target": ("ReportTarget",),
    },
)
