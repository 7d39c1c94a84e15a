"""`branchline trace run` counts what strace counts, for ROOT with and without its cache and for uproot, by name."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S
from tests.peers.peers import import_root, missing, shared_data

from branchline.errors import OptionError
from branchline.tracing.strace import follow
from branchline.tracing.trace import Trace, read_trace
from branchline.tracing.trace_summary import summarise

# What the ALICE study did: every entry of the tree, with the branches of two detectors switched off.
READ_WITH_ROOT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import ROOT
ROOT.gErrorIgnoreLevel = ROOT.kFatal
file = ROOT.TFile.Open(sys.argv[1])
tree = file.Get("esdTree")
tree.SetCacheSize(int(sys.argv[2]))
tree.SetBranchStatus("*FMD*", 0)
tree.SetBranchStatus("CaloClusters*", 0)
if int(sys.argv[2]):
    tree.AddBranchToCache("*", True)
for entry in range(tree.GetEntries()):
    tree.GetEntry(entry)
print(json.dumps([file.GetReadCalls(), file.GetBytesRead()]))
"""
READ_WITH_UPROOT = """
import sys, uproot
with uproot.open(sys.argv[1]) as file:
    file["esdTree"]["Tracks/Tracks.fTPCsignal"].array(library="np")
    file["esdTree"]["Tracks/Tracks.fP[5]"].array(library="np")
"""
READ_WHAT_CHANGES = """
import os, shutil, socket, sys
original, folder = sys.argv[1:]
for name in ("replaced", "gone"):
    shutil.copy(original, f"{folder}/{name}.root")
    with open(f"{folder}/{name}.root", "rb") as file:
        file.read(100)
os.replace(shutil.copy(original, f"{folder}/other"), f"{folder}/replaced.root")
os.unlink(f"{folder}/gone.root")
for kind, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    try:
        socket.socket(kind).connect((host, 9))
    except OSError:
        pass
"""
READ_IN_MANY_WAYS = """
import os, sys, threading
path = sys.argv[1]
file = os.open(path, os.O_RDONLY)
os.read(file, 100)
twin = os.dup(file)
if os.fork() == 0:
    os.read(twin, 50)
    os._exit(0)
os.wait()
threads = [threading.Thread(target=os.pread, args=(file, 1000, 2000 * n)) for n in range(1, 4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
os.preadv(file, [bytearray(10), bytearray(20)], 300)
os.lseek(twin, -40, os.SEEK_END)
print(len(os.read(file, 4096)))
sys.stdout.flush()
os.execvp("sh", ["sh", "-c", 'cat "$0" >/dev/null; exit 7', path])
"""


@pytest.fixture(scope="module")
def esd() -> Path:
    folder = shared_data()
    if folder is None:
        missing("the shared test data (BRANCHLINE_SHARED, or ../shared next to the repository)")
    return folder / "root" / "AliESDs-0.root"


def run(trace: Path, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """`branchline trace run` of a command."""
    shutil.which("strace") or missing("strace")
    line = [sys.executable, "-m", "branchline", "trace", "run", "-o", str(trace), "--", *command]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=HANG_S, check=False)
    if "ptrace" in ended.stderr:
        missing("the right to trace programs")
    assert ended.returncode == code, ended.stderr
    return ended


def followed(trace: Path, *command: str, code: int = 0) -> Trace:
    """The same in this process, which spares the start of another one."""
    shutil.which("strace") or missing("strace")
    found = follow(command)
    assert found.job.exit_code == code
    found.write(trace)
    return found


def counted_by_strace(path: Path, folder: Path, *command: str) -> tuple[int, int]:
    """Calls and bytes of a second run, as strace prints them, without any knowledge of ours."""
    output = folder / "plain"
    calls = "trace=read,pread64,readv,preadv,preadv2"
    subprocess.run(["strace", "-ff", "-y", "-e", calls, "-o", output, *command], capture_output=True, check=True)
    lines = [line for part in folder.glob("plain.*") for line in part.read_text(errors="replace").splitlines()]
    sizes = [re.search(r"= (\d+)$", line) for line in lines if f"<{path.resolve()}>" in line]
    return len(sizes), sum(int(size[1]) for size in sizes if size is not None)


def totals_of(trace: Path) -> dict[str, Any]:
    found = summarise(read_trace(trace)).as_json()
    parts = read_trace(trace).rows_of("part")["size_bytes"].to_pylist()
    assert sum(parts) == found["totals"]["read_bytes"]
    return found


def test_the_numbers_of_the_alice_study_come_out_again(esd: Path, tmp_path: Path) -> None:
    if import_root() is None:
        missing("ROOT")
    ended = run(tmp_path / "t.parquet", sys.executable, "-c", READ_WITH_ROOT, str(esd), "0")
    found = totals_of(tmp_path / "t.parquet")
    totals = found["totals"]
    # Its table 3: read calls and bytes of AliESDs.root, which were counted from its first event on.
    assert (totals["basket_read_calls"], totals["basket_read_bytes"]) == (483, 1_377_525)
    assert "1 377 525 bytes" in ended.stderr
    # ROOT itself counts the opening, too: header, keys, streamer infos, and the record of the tree.
    assert [totals["read_calls"], totals["read_bytes"]] == json.loads(ended.stdout)
    assert totals["read_calls"] == 483 + 4
    (events,) = found["events"]
    assert events["read_calls"][0] == 440
    assert sum(events["read_calls"]) == 483
    hit = {row["branch"] for row in found["branches"] if row["read_calls"] and row["unwanted_bytes"] == 0}
    assert len(hit) == 440
    assert not [name for name in hit if "FMD" in name or "CaloClusters" in name]


@pytest.mark.long
def test_root_with_its_cache_is_counted_as_strace_counts_it(esd: Path, tmp_path: Path) -> None:
    if import_root() is None:
        missing("ROOT")
    command = [sys.executable, "-c", READ_WITH_ROOT, str(esd), "30000000"]
    followed(tmp_path / "t.parquet", *command)
    totals = totals_of(tmp_path / "t.parquet")["totals"]
    assert (totals["read_calls"], totals["read_bytes"]) == counted_by_strace(esd, tmp_path, *command)
    assert totals["read_calls"] < 100


def test_uproot_is_counted_as_strace_counts_it(esd: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", READ_WITH_UPROOT, str(esd)]
    followed(tmp_path / "t.parquet", *command)
    found = totals_of(tmp_path / "t.parquet")
    totals = found["totals"]
    assert (totals["read_calls"], totals["read_bytes"]) == counted_by_strace(esd, tmp_path, *command)
    branches = {row["branch"]: row for row in found["branches"]}
    assert {"Tracks/Tracks.fTPCsignal", "Tracks/Tracks.fP[5]"} <= set(branches)
    assert branches["Tracks/Tracks.fP[5]"]["unwanted_bytes"] == 0


def test_forks_threads_duplicates_and_new_programs_are_followed(esd: Path, tmp_path: Path) -> None:
    copy = tmp_path / "a b>\u00e9 (1).root"
    shutil.copy(esd, copy)
    size = copy.stat().st_size
    ended = run(tmp_path / "t.parquet", sys.executable, "-c", READ_IN_MANY_WAYS, str(copy), code=7)
    assert ended.stdout == "40\n"
    rows = read_trace(tmp_path / "t.parquet").rows_of("request").to_pylist()
    assert {row["file"] for row in rows} == {str(copy)}
    own = [(row["offset"], row["got_bytes"]) for row in rows if row["job"] != rows[-1]["job"]]
    assert sorted(own) == [(0, 100), (100, 50), (300, 30), (2000, 1000), (4000, 1000), (6000, 1000), (size - 40, 40)]
    others = [row for row in rows if row["job"] == rows[-1]["job"]]
    assert sum(row["got_bytes"] for row in others) == size
    assert len({row["thread"] for row in rows}) > 4


def test_a_program_that_is_killed_leaves_what_it_read(esd: Path, tmp_path: Path) -> None:
    program = "import os, sys; f = open(sys.argv[1], 'rb', 0); f.read(123); os.kill(os.getpid(), 9)"
    followed(tmp_path / "t.parquet", sys.executable, "-c", program, str(esd), code=128 + signal.SIGKILL)
    assert totals_of(tmp_path / "t.parquet")["totals"]["read_bytes"] == 123


def test_ctrl_c_ends_the_program_and_keeps_its_reads(esd: Path, tmp_path: Path) -> None:
    shutil.which("strace") or missing("strace")
    program = (
        "import sys, time; f = open(sys.argv[1], 'rb', 0); f.read(123); print('ready', flush=True); time.sleep(60)"
    )
    line = [sys.executable, "-m", "branchline", "trace", "run", "-o", str(tmp_path / "t.parquet"), "--"]
    command = [*line, sys.executable, "-c", program, str(esd)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == "ready\n"
        time.sleep(0.2)
        # As a terminal does it: to all processes of the group.
        os.killpg(started.pid, signal.SIGINT)
        assert started.wait(timeout=280) == 128 + signal.SIGINT
    assert totals_of(tmp_path / "t.parquet")["totals"]["read_bytes"] == 123


def test_what_strace_had_no_room_for_is_said_to_be_missing(esd: Path, tmp_path: Path) -> None:
    # 64 KiB of each file, as on a disk that is full then; strace ends, or goes on without what it cannot write.
    limited = 'trap "" XFSZ; ulimit -f 64; exec "$@"'
    line = [sys.executable, "-m", "branchline", "trace", "run", "-o", str(tmp_path / "t.parquet"), "--"]
    reads = ["dd", "status=none", f"if={esd}", "of=/dev/null", "bs=1000", "count=2000"]
    ended = subprocess.run(
        ["bash", "-c", limited, "bash", *line, *reads], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert ended.returncode in (0, 128 + signal.SIGXFSZ), ended.stderr[-2000:]
    totals = totals_of(tmp_path / "t.parquet")["totals"]
    assert 0 < totals["read_calls"] < 1000
    assert "The last calls of 1 thread are missing" in ended.stderr
    whole = followed(tmp_path / "t.parquet", *reads)
    assert totals_of(tmp_path / "t.parquet")["totals"]["read_calls"] == 2000
    assert "missing" not in " ".join(whole.notes)


def test_what_cannot_be_followed_is_said(tmp_path: Path, esd: Path) -> None:
    program = "import mmap, sys; f = open(sys.argv[1], 'rb'); mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)[5000]"
    found = followed(tmp_path / "t.parquet", sys.executable, "-c", program, str(esd))
    assert "mapped into memory 1 time" in " ".join(found.notes)
    marks = ["-c", "import pathlib, sys; pathlib.Path(sys.argv[1]).touch()", str(tmp_path / "ran")]
    with_file = tmp_path / "t.parquet" / "below.parquet"
    refused = run(with_file, sys.executable, *marks, code=1)
    assert f"{with_file} could not be written" in refused.stderr
    assert not (tmp_path / "ran").exists()
    with pytest.raises(OptionError, match="command not found: no-such-program"):
        follow(["no-such-program"])


def test_files_that_change_and_servers_are_named(esd: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    found = followed(tmp_path / "t.parquet", sys.executable, "-c", READ_WHAT_CHANGES, str(esd), str(folder))
    notes = " ".join(found.notes)
    assert f"{folder / 'gone.root'} was removed" in notes
    assert f"{folder / 'replaced.root'} was modified or replaced during the run" in notes
    assert f"{esd} " not in notes
    assert "connected to 127.0.0.1:9" in notes


def test_names_that_are_no_text_are_shown_with_escapes(esd: Path, tmp_path: Path) -> None:
    path = os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.root")
    shutil.copy(esd, path)
    found = followed(tmp_path / "t.parquet", "dd", "status=none", f"if={path}", "of=/dev/null", "bs=1M")
    (file,) = summarise(read_trace(tmp_path / "t.parquet")).as_json()["files"]
    assert file["file"] == f"{tmp_path}/a\\udcff.root"
    assert file["read_bytes"] == esd.stat().st_size
    assert f"The name of {file['file']} is not UTF-8" in " ".join(found.notes)
