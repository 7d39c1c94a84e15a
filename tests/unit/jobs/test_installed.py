"""A job whose Branchline is installed anew while it runs ends with the reason, and not with a traceback of new code."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import branchline
from branchline import _core

# A job that has had a worker, and after the upgrade starts others: ``how`` says from where.
_JOB = """
import sys
from pathlib import Path
import psutil
import branchline
from branchline.errors import BranchlineError
from branchline.jobs.workers import launcher
from branchline.jobs.local import LocalProcesses
from branchline.jobs.program import ModuleFile
from branchline.jobs.subjob import Finished, SubJob

class Tells:
    def __call__(self, context):
        while (drawn := context.draw()) is not None:
            yield Finished(drawn.index, "well", context.worker)

def run(*modules):
    given = iter([SubJob(0, "", 0)])
    return [one.value for one in LocalProcesses(1, modules).run(Tells(), lambda *_: next(given, None))]

how, module = sys.argv[1:]
print(branchline.__file__)
print(run())
Path(branchline.__file__).write_text("raise ImportError('this is the code of the new version')")
modules = []
if how == "new server":
    [one.kill() for one in psutil.Process().children()]
elif how == "new process":
    launcher._server.end()
    launcher._server._is_refused = True
else:
    modules = [ModuleFile("of_the_user", module)]
try:
    run(*modules)
except BranchlineError as error:
    print(type(error).__name__, error)
"""


def upgradable(folder: Path) -> Path:
    """A folder with an installation of Branchline, of which the files that a test changes are its own."""
    package = folder / "branchline"
    package.mkdir(parents=True)
    own = [Path(str(one.__file__)) for one in (branchline, _core)]
    for one in own[0].parent.iterdir():
        if one not in own:
            (package / one.name).symlink_to(one)
    for one in own:
        shutil.copy2(one, package)
    information = folder / "branchline-98.7.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: branchline\nVersion: 98.7\n")
    return folder


@pytest.mark.parametrize("how", ["new server", "new process", "dies as it starts", "fails as it starts"])
def test_a_worker_of_another_branchline_than_the_job_is_not_started(tmp_path: Path, how: str) -> None:
    if how != "new process" and sys.platform != "linux":
        pytest.skip("elsewhere workers are new processes")
    folder = upgradable(tmp_path / "site-packages")
    module = tmp_path / "of_the_user.py"
    module.write_text("import os; os._exit(3)" if how == "dies as it starts" else "raise ImportError('half')")
    ran = subprocess.run(
        [sys.executable, "-c", _JOB, how, str(module)],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=280,
    )
    package = folder / "branchline"
    where, first, said = ran.stdout.splitlines()
    assert (where, first) == (str(package / "__init__.py"), "['well']")
    was = re.escape(f"InstallationChangedError Branchline at {package} was version {branchline.__version__} (modified ")
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.fullmatch(
        rf"{was}{when}\) when this job started and is now version 98\.7 \(modified {when}\) \(start the job again.*\)",
        said,
    )
    assert "the new version" not in ran.stderr
