"""python -m docs.generate: generate docs/reference/generated and docs/explanation/generated."""

from __future__ import annotations

import shutil
from pathlib import Path

from docs.generate import commands, environment, files, job_record, measurements, pictures, python_api, traced_paths

DOCS = Path(__file__).resolve().parent.parent


def main() -> None:
    reference = DOCS / "reference" / "generated"
    explanation = DOCS / "explanation" / "generated"
    for folder in (reference, explanation):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    (reference / "commands.md").write_text(commands.page(), encoding="utf-8")
    # settings.md includes this table. The suffix .txt keeps Sphinx from building a page.
    (reference / "environment.txt").write_text(environment.page(), encoding="utf-8")
    (reference / "python.md").write_text(python_api.page(), encoding="utf-8")
    (reference / "job-record.md").write_text(job_record.page(), encoding="utf-8")
    measurements.write(explanation, DOCS.parent / "benches" / "results")
    pictures.write(explanation)
    traced_paths.write(explanation, (DOCS.parent / "ARCHITECTURE.md").read_text(encoding="utf-8"))
    files.write(explanation, DOCS.parent)
    # This file is committed, since the README shows it.
    (DOCS / "speed.svg").write_text(measurements.speed_chart(DOCS.parent / "benches" / "results"), encoding="utf-8")


main()
