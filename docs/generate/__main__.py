"""python -m docs.generate: writes docs/reference/generated and docs/explanation/generated."""

from __future__ import annotations

import shutil
from pathlib import Path

from docs.generate import commands, job_record, measurements, pictures, python_api

DOCS = Path(__file__).resolve().parent.parent


def main() -> None:
    reference = DOCS / "reference" / "generated"
    explanation = DOCS / "explanation" / "generated"
    for folder in (reference, explanation):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (reference / "commands.md").write_text(commands.page(), encoding="utf-8")
    (reference / "python.md").write_text(python_api.page(), encoding="utf-8")
    (reference / "job-record.md").write_text(job_record.page(), encoding="utf-8")
    measurements.write(explanation, DOCS.parent / "benches" / "results")
    pictures.write(explanation)


main()
