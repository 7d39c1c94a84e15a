"""Limits stand beside arms: whole files, the bare client, the bare network, and the ranges of an arm's own trace."""

from __future__ import annotations

from pathlib import Path

import pytest

import branchline
from branchline.errors import OptionError
from branchline.lab.sampling.bare_network import host_of, own_address
from branchline.lab.sampling.clients import ClientError, reader_of
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.sampling.samples import SAMPLES, SampleFile
from branchline.lab.sampling.traces import counterparts, ranges_on, trace_path
from branchline.lab.studies.storage_limits import CLIENT, NETWORK, limit_settings
from branchline.lab.studies.study_file import load_study
from branchline.lab.studies.study_page import write_report
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.study import JobSettings

STUDY = """
question = "Which way is faster?"
precision = "90%"
budget = "2 min"
rounds = 1
[job]
where = "${HERE}"
tree = "events"
jobs = 2
cold = true
[factors.reading]
plain = { options = { mode = "plain" } }
planned = { options = { mode = "planned" } }
[baseline]
reading = "plain"
"""


@pytest.mark.long
def test_the_ranges_that_an_arm_reads_are_recorded_repeated_and_drawn(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    for name in "ab":
        with branchline.create(data / f"{name}.root") as file:
            file.mktree("events", {"x": list(range(30_000)), "y": list(range(30_000))})
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    out = tmp_path / "out"
    study = load_study(tmp_path / "study.toml", {"HERE": str(data)})
    found = StudyRun(study, out, 1, HereAtOnce(out), lambda _: None).run()
    assert found.rounds == 1
    samples = SampleFile(out / SAMPLES).read()
    assert not [one.error for one in samples if one.error]
    for arm in found.arms:
        kinds = {one.kind: one for one in arm.limits}
        assert kinds.keys() == {"limit", "blocks"}
        assert all(one.bytes_per_s > 0 and one.share for one in kinds.values())
        [own] = [one for one in samples if (one.kind, one.arm) == ("arm", arm.name)]
        repeated = [one for one in samples if (one.kind, one.arm) == ("blocks", arm.name)]
        assert len(repeated) == 2
        for number in range(2):
            wanted = ranges_on(trace_path(out, arm.name, number), [])
            assert {Path(file).name for file, _, _ in wanted} == {("a.root", "b.root")[number]}
            moved = sum(size for _, _, size in wanted)
            assert [one.jobs[number].bytes_read for one in repeated] == [moved, moved]
            assert moved == own.jobs[number].bytes_read
        assert all(one.cached_bytes == 0 for one in repeated)
    page = write_report(out).read_text(encoding="utf-8")
    assert page.count("Offset: reading") >= 2
    assert "raw disk, the same ranges one after another" in page
    assert "are shown" not in page
    # Of another arm there is no trace, as if there had been no time for it.
    trace_path(out, "reading planned", 0).unlink()
    assert "1 of 2 arms are shown, as time permitted" in write_report(out).read_text(encoding="utf-8")


def test_it_is_said_that_there_was_no_time_to_record_what_arms_read(tmp_path: Path) -> None:
    with branchline.create(tmp_path / "a.root") as file:
        file.mktree("events", {"x": list(range(1000))})
    text = STUDY.replace("2 min", "0.01 s").replace("jobs = 2", "jobs = 1")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    study, said = load_study(tmp_path / "study.toml", {"HERE": str(tmp_path)}), list[str]()
    StudyRun(study, tmp_path / "out", 1, HereAtOnce(tmp_path / "out"), said.append).run()
    assert said[-1] == "the budget is spent: not all reads of 2 arms are recorded and repeated on the disk"


def test_a_bare_socket_moves_as_many_bytes_as_are_wanted(tmp_path: Path) -> None:
    request = JobRequest(0, "socket", [], str(tmp_path), options={"host": "127.0.0.1", "bytes": 5_000_001})
    assert reader_of(request)([]).bytes_read == 5_000_001
    with pytest.raises(OptionError, match="not an address of this machine"):
        reader_of(JobRequest(0, "socket", [], str(tmp_path), options={"host": "203.0.113.1", "bytes": 1}))


@pytest.mark.long
def test_the_ranges_of_copies_are_repeated_on_copies(tmp_path: Path) -> None:
    data, stage = tmp_path / "data", tmp_path / "stage"
    data.mkdir()
    stage.mkdir()
    for name in "ab":
        with branchline.create(data / f"{name}.root") as file:
            file.mktree("events", {"x": list(range(30_000))})
    text = STUDY.replace("jobs = 2", f'jobs = 1\nstage = "{stage}"')
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    found = StudyRun(
        load_study(tmp_path / "study.toml", {"HERE": str(data)}), out, 1, HereAtOnce(out), lambda _: None
    ).run()
    samples = SampleFile(out / SAMPLES).read()
    assert not [one.error for one in samples if one.error]
    for arm in found.arms:
        assert {one.kind for one in arm.limits} == {"limit", "blocks"}
        own, *repeated = [one for one in samples if one.arm == arm.name and one.kind in ("arm", "blocks")]
        assert [one.jobs[0].bytes_read for one in repeated] == [own.jobs[0].bytes_read] * 2
    assert list(stage.iterdir()) == []
    page = write_report(out).read_text(encoding="utf-8")
    assert page.count("copying them first, then raw disk") == len(found.arms)


def test_files_with_the_same_name_are_found_by_the_end_of_their_paths(tmp_path: Path) -> None:
    own = tmp_path / "own.root"
    own.touch()
    files = ["/served/x/a.root", "/served/y/a.root", "/served/y/b c.root"]
    url, other = "root://host//data/y/a.root", "https://host/y/b%20c.root?token=1"
    assert counterparts([url, other, str(own)], files) == {url: files[1], other: files[2], str(own): str(own)}
    # Two are as good, none is, and one is that of two.
    assert counterparts(["root://host//z/a.root"], files) == {"root://host//z/a.root": None}
    assert counterparts(["root://host//z/c.root"], files) == {"root://host//z/c.root": None}
    assert set(counterparts([url, "root://host//friends/y/a.root"], files).values()) == {None}


def test_a_trace_without_local_reads_is_no_limit(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="trace") as failure:
        reader_of(JobRequest(0, "ranges", [], str(tmp_path), trace=str(tmp_path / "none.parquet")))
    assert isinstance(failure.value, ClientError | branchline.errors.MissingFileError)


def test_limits_of_servers_are_those_of_their_clients_and_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.lab.studies.storage_limits.shutil.which", lambda name: name)
    here = JobSettings(where=("http://127.0.0.1:80/data",), client="root", options={"cache": 0})
    client, network = limit_settings(here, CLIENT), limit_settings(here, NETWORK)
    assert client is not None
    assert (client.client, client.options) == ("copy", {})
    assert network is not None
    assert network.options == {"host": "127.0.0.1"}
    elsewhere = JobSettings(where=("root://203.0.113.1//data",))
    assert limit_settings(elsewhere, NETWORK) is None
    assert limit_settings(JobSettings(where=("s3://bucket/data",)), CLIENT) is None
    assert limit_settings(JobSettings(where=("/data",)), CLIENT) is None
    assert limit_settings(JobSettings(where=("http://127.0.0.1/data",), client="copy"), CLIENT) is None


def test_addresses_of_this_machine_are_known() -> None:
    assert own_address("127.0.0.1")
    assert not own_address("203.0.113.1")
    assert not own_address("")
    assert host_of("root://user@localhost:1094//data") == "localhost"
    assert host_of("/data") == ""
