"""A study takes each sample once, in an order that its seed draws, also when it is killed; and says what it found."""

from __future__ import annotations

import html
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.branchline_command import run_branchline
from tests.patience import HANG_S

from branchline.errors import DatasetError, OptionError
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample, load_kept
from branchline.lab.studies.study_file import load_study
from branchline.lab.studies.study_page import PAGE, TABLE, kept_result, write_report
from branchline.lab.studies.study_result import StudyResult, result_of
from branchline.lab.studies.study_run import FailedStudyError, StudyRun
from branchline.lab.studies.verdict import sentences
from branchline.lab.study import Study

SLEEPS = """
question = "Which sleep is longer?"
precision = "60%"
budget = "60 s"
limits = false
[job]
client = "command"
[factors.sleep]
short = { command = "sleep 0.05" }
long = { command = "sleep 0.3" }
[baseline]
sleep = "short"
"""


def study_of(folder: Path, text: str) -> Study:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return load_study(path, {"HERE": str(folder)})


def run(folder: Path, text: str, seed: int = 1, said: list[str] | None = None) -> StudyResult:
    out = folder / "out"
    say = said.append if said is not None else lambda _: None
    return StudyRun(study_of(folder, text), out, seed, HereAtOnce(folder), say).run()


def samples(folder: Path) -> list[StudySample]:
    return SampleFile(folder / "out" / SAMPLES).read()


def quiet(folder: Path) -> StudyResult:
    """The result as on a machine without other programs, such as the tests beside this one."""
    kept = load_kept(folder / "out")
    alone = [replace(one, surroundings=Surroundings()) for one in samples(folder)]
    return result_of(kept.study, kept.seed, alone)


def test_the_longer_one_is_told_with_an_interval_after_the_control(tmp_path: Path) -> None:
    # Far from each other, also with what a busy machine takes to start them.
    found = run(tmp_path, SLEEPS.replace("0.3", "0.8"))
    arm = next(one for one in found.arms if not one.is_baseline)
    assert arm.time is not None
    assert arm.time.low is not None
    assert arm.time.low > 1.5
    assert found.is_precise
    lines = sentences(quiet(tmp_path))
    assert lines[0].startswith("control: sleep short takes")
    assert lines[1].startswith("no arm is faster than its baseline; the slowest relative to it is sleep long")


def test_a_round_has_each_arm_once_and_the_baseline_twice_in_an_order_of_the_seed(tmp_path: Path) -> None:
    orders = []
    for number, seed in enumerate((5, 5, 6)):
        folder = tmp_path / str(number)
        folder.mkdir()
        run(folder, SLEEPS.replace("0.05", "0.01").replace("0.3", "0.01").replace('"60%"', '"90%"'), seed)
        taken = [one for one in samples(folder) if one.round < 6]
        orders.append([(one.round, one.kind, one.arm) for one in taken])
        assert Counter((one.kind, one.arm) for one in taken) == {
            ("arm", "sleep short"): 6,
            ("arm", "sleep long"): 6,
            ("control", "sleep short"): 6,
        }
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]


@pytest.mark.long
def test_a_study_that_is_killed_again_and_again_takes_the_same_samples_and_none_twice(tmp_path: Path) -> None:
    text = SLEEPS.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 6').replace("60%", "1%")
    study_of(tmp_path, text)
    words = [
        sys.executable,
        "-m",
        "branchline",
        "study",
        "run",
        str(tmp_path / "study.toml"),
        "-o",
        "out",
        "--seed",
        "3",
    ]
    numbers, kept = random.Random(11), tmp_path / "out" / SAMPLES
    for _ in range(3):
        running = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
        before = kept.stat().st_size if kept.exists() else 0
        # A busy machine starts Python in seconds: the time counts from the first sample of this process on.
        while running.poll() is None and (not kept.exists() or kept.stat().st_size == before):
            time.sleep(0.01)
        time.sleep(numbers.uniform(0.0, 0.15))
        os.killpg(running.pid, signal.SIGKILL)
        assert running.wait() == -signal.SIGKILL
    ended = subprocess.run(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=200)
    assert ended.returncode == 0, ended.stderr
    keys = [one.key for one in samples(tmp_path)]
    wanted = {(number, *one) for number in range(6) for one in (("arm", "sleep short"), ("arm", "sleep long"))}
    wanted |= {(number, "control", "sleep short") for number in range(6)}
    assert len(keys) == len(set(keys))
    assert set(keys) == wanted
    result = kept_result(tmp_path / "out")
    assert result.sessions == 4
    assert any("interrupted" in one for one in sentences(result))
    orders = {number: [key for key in keys if key[0] == number] for number in range(6)}
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    run(fresh, text, seed=3)
    assert orders == {number: [key.key for key in samples(fresh) if key.round == number] for number in range(6)}


def test_a_torn_last_line_is_cut_off_and_its_sample_taken_again(tmp_path: Path) -> None:
    text = SLEEPS.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 2')
    run(tmp_path, text)
    path = tmp_path / "out" / SAMPLES
    whole = path.read_bytes()
    path.write_bytes(whole[:-200])
    run(tmp_path, text)
    assert len(samples(tmp_path)) == 6
    assert path.read_bytes().startswith(whole[: whole[:-200].rfind(b"\n") + 1])


def test_a_directory_of_another_study_or_of_something_else_is_refused(tmp_path: Path) -> None:
    text = SLEEPS.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 1')
    run(tmp_path, text)
    with pytest.raises(OptionError, match="another study"):
        run(tmp_path, text.replace("0.3", "0.2"))
    other = tmp_path / "other"
    (other / "out").mkdir(parents=True)
    (other / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(OptionError, match="not empty"):
        run(other, text)


def test_an_arm_that_fails_is_left_out_counted_and_named_and_the_others_go_on(tmp_path: Path) -> None:
    said: list[str] = []
    text = SLEEPS.replace("[baseline]", 'broken = { command = "false" }\n[baseline]')
    found = run(tmp_path, text, said=said)
    broken = next(one for one in found.arms if one.name == "sleep broken")
    assert (broken.samples, broken.lost, broken.time) == (0, 3, None)
    assert any("ended with code 1" in error for error in broken.errors)
    assert any("is given up" in one for one in said)
    assert found.arms[1].samples >= 6
    assert any(one.startswith("sleep broken: left out 3 times") for one in sentences(found))


def test_a_baseline_that_fails_ends_the_study_with_what_it_said(tmp_path: Path) -> None:
    with pytest.raises(FailedStudyError, match=r"no baseline can be measured.*code 1"):
        run(tmp_path, SLEEPS.replace("sleep 0.05", "false"))


def test_a_job_that_dies_or_hangs_is_a_lost_sample(tmp_path: Path) -> None:
    # Other tests sleep as well.
    killing, own_sleep = tmp_path / "kill.sh", f"sleep 100.{os.getpid()}"
    killing.write_text("kill -9 $PPID\n", encoding="utf-8")
    text = SLEEPS.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 1\nwait = "5 s"')
    text = text.replace("sleep 0.3", f"sh {killing}")
    text = text.replace("[baseline]", f'hanging = {{ command = "{own_sleep}" }}\n[baseline]')
    begin_s = time.monotonic()
    found = run(tmp_path, text)
    assert time.monotonic() - begin_s < 60
    errors = {one.name: "".join(one.errors) for one in found.arms}
    assert "died with code -9" in errors["sleep long"]
    assert "timed out after 5 s" in errors["sleep hanging"]
    wait_until(lambda: not _running(own_sleep))


def _running(command: str) -> bool:
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if one.read_bytes().replace(b"\0", b" ").strip() == command.encode():
                return True
        except OSError:
            continue
    return False


FILES = """
question = "Who is faster?"
precision = "50%"
budget = "100 s"
rounds = 2
[job]
where = "${HERE}"
tree = "events"
cold = true
files_per_job = 2
[factors.client]
pieces = { client = "pieces", options = { size = "4 KiB" } }
branchline = { client = "branchline" }
uproot = { client = "uproot" }
root = { client = "root", options = { cache = 0 } }
copy = { client = "copy" }
[factors]
jobs = [1, 2]
[baseline]
client = "pieces"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path)


def written(folder: Path) -> Path:
    import numpy as np
    import uproot

    for number in range(4):
        with uproot.recreate(folder / f"{number}.root") as file:
            tree = file.mktree("events", {"x": "f8"})
            tree.extend({"x": np.arange(5000.0) + number})
    os.sync()
    return folder


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StudyResult]:
    """A study of all clients, which the tests only look at."""
    folder = written(tmp_path_factory.mktemp("measured"))
    return folder, run(folder, FILES)


@pytest.mark.long
def test_clients_read_files_of_their_own_that_are_proved_cold(measured: tuple[Path, StudyResult]) -> None:
    data, found = measured
    taken = samples(data)
    assert not [one.error for one in taken if one.error]
    by_arm = {one.arm: one for one in taken if one.kind == "arm"}
    sizes = [(data / f"{number}.root").stat().st_size for number in range(4)]
    for client in ("branchline", "uproot", "root"):
        assert by_arm[f"client {client}, jobs 1"].events == 10_000
        assert by_arm[f"client {client}, jobs 2"].events == 20_000
    assert by_arm["client pieces, jobs 2"].events is None
    assert by_arm["client pieces, jobs 1"].jobs[0].bytes_read == sum(sizes[:2])
    pieces = [job.bytes_read for job in by_arm["client pieces, jobs 2"].jobs]
    assert pieces == [sum(sizes[:2]), sum(sizes[2:])], "each job has files of its own"
    assert {one.cached_bytes for one in taken} == {0}
    assert found.per == "byte", "not all clients count events"
    assert all(one.limit_bytes_per_s for one in found.arms if "branchline" in one.name)


def test_the_report_and_the_table_have_what_was_measured(measured: tuple[Path, StudyResult]) -> None:
    data, _ = measured
    page = write_report(data / "out").read_text(encoding="utf-8")
    assert (data / "out" / PAGE).exists()
    assert "Who is faster?" in page
    assert "drawn by seed 1" in page
    assert "Throughput of all jobs against jobs at once" in page
    assert "http" not in page.replace("http://www.w3.org", "")
    table = pyarrow.parquet.read_table(data / "out" / TABLE).to_pylist()
    assert len(table) == sum(len(one.jobs) for one in samples(data))
    assert {row["kind"] for row in table} == {"arm", "control", "limit", "trace", "blocks"}


def test_names_and_errors_are_texts_on_the_page(tmp_path: Path) -> None:
    text = SLEEPS.replace("Which sleep is longer?", "<script>alert(1)</script>").replace("rounds", "rounds")
    text = text.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 1').replace("long =", '"<b>long" =')
    text = text.replace("sleep 0.3", "ls /<i>")
    run(tmp_path, text)
    page = write_report(tmp_path / "out").read_text(encoding="utf-8")
    assert "<script>" not in page
    assert "<b>long" not in page
    assert "/<i>" not in page


def test_too_few_files_for_the_jobs_are_told_before_anything_is_measured(data: Path) -> None:
    with pytest.raises(OptionError, match=r"3 jobs need 6 files at .*, there are 4"):
        run(data, FILES.replace("jobs = [1, 2]", "jobs = [1, 3]"))
    assert samples(data) == []
    with pytest.raises(DatasetError, match="no file matches"):
        run(data / "..", FILES.replace("${HERE}", "${HERE}/none").replace("jobs = [1, 2]", "jobs = [1]"))


def test_jobs_read_from_a_place_each(data: Path) -> None:
    for disk in ("one", "two"):
        (data / disk).mkdir()
        for number in range(2):
            (data / disk / f"{number}.root").write_bytes((data / f"{number}.root").read_bytes())
    text = FILES.replace('where = "${HERE}"', 'where = ["${HERE}/one", "${HERE}/two"]')
    text = text.replace("files_per_job = 2", "files_per_job = 1").replace("jobs = [1, 2]", "jobs = [4]")
    text = text.replace("rounds = 2", "rounds = 1\nlimits = false")
    run(data, text.replace('root = { client = "root", options = { cache = 0 } }', ""))
    jobs = next(one for one in samples(data) if one.arm == "client branchline, jobs 4").jobs
    assert [one.events for one in jobs] == [5000] * 4


def test_a_copy_to_the_worker_is_read_there_and_removed(data: Path) -> None:
    text = f"""
question = "Does a copy help?"
rounds = 1
limits = false
[job]
where = "{data}"
tree = "events"
[factors.way]
direct = {{}}
staged = {{ stage = "{data}/worker" }}
[baseline]
way = "direct"
"""
    run(data, text)
    assert [one.events for one in samples(data)] == [20_000] * 3
    assert not list((data / "worker").iterdir())


def test_a_command_before_samples_runs_before_each(tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = SLEEPS.replace('client = "command"', f'client = "command"\nbefore = "sh -c \'echo x >> {log}\'"')
    text = text.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 2')
    run(tmp_path, text)
    assert log.read_text() == "x\n" * 6


def test_the_kept_study_is_a_record_with_a_version(tmp_path: Path) -> None:
    run(tmp_path, SLEEPS.replace('budget = "60 s"', 'budget = "60 s"\nrounds = 1'), seed=77)
    kept = json.loads((tmp_path / "out" / "study.json").read_text(encoding="utf-8"))
    assert kept["seed"] == 77
    assert kept["study"]["study_version"] == 1


def test_jobs_of_a_study_that_is_killed_end_with_all_that_they_started(tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(f"sleep 600 & echo $! > {tmp_path}/inner; echo $$ > {tmp_path}/outer; wait", encoding="utf-8")
    study_of(tmp_path, SLEEPS.replace("sleep 0.05", f"sh {script}").replace("sleep 0.3", f"sh {script}"))
    words = [
        sys.executable,
        "-m",
        "branchline",
        "study",
        "run",
        str(tmp_path / "study.toml"),
        "-o",
        str(tmp_path / "o"),
    ]
    running = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
    notes = [tmp_path / "inner", tmp_path / "outer"]
    try:
        wait_until(lambda: all(one.exists() and one.read_text().strip() for one in notes))
    finally:
        os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    pids = [int(one.read_text()) for one in notes]
    wait_until(lambda: not any(is_running(one) for one in pids))


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + HANG_S
    while not is_true():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    """Whether a process is there; one that nobody has waited for is not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def test_a_file_that_goes_away_is_a_lost_sample_that_is_named(data: Path) -> None:
    text = f"""
question = "What of a file that is gone?"
rounds = 2
limits = false
[job]
where = "{data}"
tree = "events"
cold = true
[factors.file]
stays = {{ files = "0.root" }}
goes = {{ files = "1.root", before = "rm -f {data}/1.root" }}
[baseline]
file = "stays"
"""
    said: list[str] = []
    found = run(data, text, said=said)
    gone = next(one for one in found.arms if one.name == "file goes")
    assert (gone.samples, gone.lost) == (0, 2)
    [error] = gone.errors
    assert error.endswith("1.root: its files cannot be made cold: No such file or directory")
    assert next(one for one in found.arms if one.name == "file stays").samples == 2
    assert sum("left out of round" in one for one in said) == 2


def test_the_page_has_the_command_that_repeats_the_study(tmp_path: Path) -> None:
    text = SLEEPS.replace("sleep 0.3", "${PROGRAM} ${LONG}").replace('budget = "60 s"', 'budget = "60 s"\nrounds = 1')
    study = tmp_path / "sleeps of all.toml"
    study.write_text(text, encoding="utf-8")
    words = [
        sys.executable,
        "-m",
        "branchline",
        "study",
        "run",
        str(study),
        "--set",
        "LONG=0.1",
        "-o",
        str(tmp_path / "out"),
        "--seed",
        "5",
    ]
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PROGRAM": "sleep"})
    page = (tmp_path / "out" / PAGE).read_text(encoding="utf-8")
    [command] = re.findall(r"<code>(branchline study .*?)</code>", page)
    again = shlex.split(html.unescape(command))[1:]
    run_branchline(tmp_path, again).check_returncode()
    first, second = (SampleFile(tmp_path / one / SAMPLES).read() for one in ("out", "out-again"))
    assert [one.key for one in first] == [one.key for one in second]
    assert not [one.error for one in second if one.error]


def test_names_of_levels_are_points_and_numbers_are_joined(data: Path) -> None:
    text = f"""
question = "Which buffers?"
rounds = 1
limits = false
[job]
where = "{data}"
tree = "events"
[factors.threads]
1 = {{ options = {{ threads = 1 }} }}
2 = {{ options = {{ threads = 2 }} }}
own = {{}}
[baseline]
threads = "own"
"""
    run(data, text)
    page = write_report(data / "out").read_text(encoding="utf-8")
    picture = page[page.index("Throughput of all jobs against threads") :]
    [path] = re.findall(r'<path d="([^"]*)" class="curve"', picture[: picture.index("</svg>")])
    assert (path.count("M"), path.count("L")) == (2, 1)
    assert picture[: picture.index("</svg>")].count("<circle") == 3


def test_what_may_be_a_secret_is_not_in_the_command_of_the_page(tmp_path: Path) -> None:
    text = SLEEPS.replace("sleep 0.3", "sleep ${API_TOKEN}").replace('budget = "60 s"', 'budget = "60 s"\nrounds = 1')
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    words = [sys.executable, "-m", "branchline", "study", "run", str(tmp_path / "study.toml")]
    subprocess.run([*words, "--seed", "5"], check=True, capture_output=True, env={**os.environ, "API_TOKEN": "0.01234"})
    page = (tmp_path / "study" / PAGE).read_text(encoding="utf-8")
    assert "branchline study run" in page
    assert "0.01234" not in page
