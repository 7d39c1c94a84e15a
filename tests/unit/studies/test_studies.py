"""Studies have valid files, findings follow the rules, and verdicts follow from samples."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from studies import published, records
from studies.findings import (
    FOUND,
    NOT_FOUND,
    NOT_JUDGED,
    OTHER_MECHANISM,
    UNMEASURED,
    UNSURE,
    ArmRatio,
    Judgement,
    Samples,
    judge,
    judgements,
    ratios_of,
)
from studies.making.sets import FULL, QUICK, Sets
from studies.measuring import quick, with_disks_as_servers
from studies.pages import write
from studies.published import Finding, Mechanism, StudyPair, problems_of, study_without_places
from studies.running import summary
from studies.yard.places import PLACES

from branchline.base.quantities import GB
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.samples import StudySample
from branchline.lab.statistics import Ratio
from branchline.lab.studies.study_result import ArmResult, Bound, StudyResult, result_of
from branchline.lab.study import Arm, Factor, JobSettings, Level, Study

PAIRS = published.all_studies()
MECHANISM = Mechanism("a cause", "a cause", is_same=True)
OF, OVER = {"disk": "new"}, {"disk": "old"}
FINDING = Finding(
    text="the new disk is faster",
    where="Table 1",
    quantity="events_per_s",
    of=OF,
    over=OVER,
    published=1.5,
    least=1.2,
    most=2.0,
    mechanism=MECHANISM,
    limited_by={"over": "storage"},
)
ARMS = [Arm(one, JobSettings(where=(one["disk"],), client="root")) for one in (OF, OVER)]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_every_study_has_enough_files_at_both_scales(pair: StudyPair) -> None:
    study = study_without_places(pair.asked)
    for scale, asked in ((FULL, study), (QUICK, quick(study))):
        small = {"small", "generated", "generated-plain"}
        for arm in asked.arms():
            job = arm.settings
            top = job.folder.partition("/")[0]
            if top != "sizes":
                files = (scale.files if top in small else scale.large) * pair.published.copies
                jobs_per_place = -(-job.jobs // len(job.where))
                assert jobs_per_place * job.files_per_job <= files, arm.name
            assert top in pair.published.sets, arm.name


def test_sets_and_places_of_studies_exist(tmp_path: Path) -> None:
    known = Sets(tmp_path, QUICK, print).names
    assert known == {name for pair in PAIRS for name in pair.published.sets}
    assert set(PLACES) == {name for pair in PAIRS for name in pair.published.places}


def test_all_studies_together_fit_into_two_hours() -> None:
    budgets_s = sum(study_without_places(pair.asked).budget_s for pair in PAIRS)
    # Making the files, starting the servers and filling the disks takes additional time.
    assert budgets_s + len(PAIRS) * 20 + 300 <= 7200, f"{budgets_s / 60:.0f} min of budgets"


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({}, ""),
        ({"quantity": "beauty"}, "unknown quantity"),
        ({"published": 1.2, "least": 0.9, "most": 1.5}, "must exclude 1"),
        ({"least": 1.6}, "bounds must surround"),
        ({"most": 2.5}, "bounds must surround"),
        ({"published": (3.0, 2.0)}, ""),
        ({"published": (3.0, 1.0)}, "bounds must surround"),
        ({"over": {"disk": "lost"}}, "the study has no arm {'disk': 'lost'}"),
        ({"over": OF}, "the arms are the same"),
        ({"is_about_clients": True}, "must have the same client"),
        ({"limited_by": {}}, "needs limited_by or counts"),
        ({"limited_by": {"under": "CPU"}}, "unknown arm 'under'"),
        ({"limited_by": {"of": "magic"}}, "unknown limiter 'magic'"),
        ({"counts": ("stars",)}, "unknown count 'stars'"),
        ({"published": 1.0, "least": 0.9, "most": 1.1, "counts": ("reads",)}, "can only explain an effect"),
        ({"mechanism": Mechanism("", "a cause", is_same=True)}, "must be described"),
    ],
)
def test_findings_follow_the_rules(changes: dict[str, object], problem: str) -> None:
    problems = problems_of(replace(FINDING, **changes), ARMS)  # type: ignore[arg-type]
    assert [problem in one for one in problems] == ([True] if problem else []), problems


def test_arms_have_the_same_client_unless_a_finding_is_about_clients() -> None:
    clients = [ARMS[0], replace(ARMS[1], settings=replace(ARMS[1].settings, client="pieces"))]
    assert "same client" in problems_of(FINDING, clients)[0]
    assert problems_of(replace(FINDING, is_about_clients=True), clients) == []


def test_the_number_of_jobs_alone_gives_no_finding() -> None:
    arms = [replace(ARMS[0], settings=replace(ARMS[0].settings, jobs=8)), ARMS[1]]
    assert "different numbers of jobs" in problems_of(FINDING, arms)[0]
    assert problems_of(replace(FINDING, quantity="efficiency"), arms) == []
    assert problems_of(replace(FINDING, limited_by={"of": "storage", "over": "storage"}), arms) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("published = 1.5\n", "", "'published'"),
        ("published = 1.5\n", "published = [1.5]\n", "positive ratio or a pair"),
        ("published = 1.5\n", "published = [3, 0]\n", "positive ratio or a pair"),
        ('limited_by = { over = "storage" }', 'limited_by = "storage"', "must be a table"),
        ("most = 2.1\n", "", "most"),
        ("most = 2.1\n", "most = 1.4\n", "bounds must surround"),
        ("[findings.mechanism]\n", "[findings.reason]\n", "'mechanism'"),
        ('data = "uncompressed"', 'data = "plain"', "no arm"),
        ("sets = ", 'no_finding = "none"\nsets = ', "either findings or no_finding"),
        ('title = "', "title = ", "test-1-4"),
    ],
)
def test_invalid_files_are_errors_that_name_the_file(old: str, new: str, problem: str, tmp_path: Path) -> None:
    for name in ("test-1-4.toml", "test-1-4.published.toml"):
        shutil.copy(published.STUDIES / "gsi" / name, tmp_path / name)
    path = tmp_path / "test-1-4.published.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=r"test-1-4\.published\.toml") as error:
        published.load(path)
    assert problem in str(error.value)


def judged(
    low: float | None,
    high: float | None,
    finding: Finding = FINDING,
    *,
    bound: Bound | None = "storage",
    is_busy: bool | None = False,
    is_quick: bool = False,
    count: float | None = None,
) -> Judgement:
    """Judge a finding whose arms have this interval and limit."""
    arms = [ArmResult(one["disk"], one, "old", 6, 0, efficiency=0.3, bound=bound) for one in (OF, OVER)]
    result = StudyResult("", 0, "event", 0.05, 6, 1, 1.0, arms, [])
    ratios = [ArmRatio(finding.quantity, OF, OVER, Ratio(1.5, 6, low, high), is_busy)]
    if count is not None:
        ratios.append(ArmRatio("reads", OF, OVER, Ratio(count, 6, count, count), is_busy))
    return judge(finding, result, ratios, is_quick=is_quick)


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(1.2, 1.4, FOUND), (0.9, 1.05, NOT_FOUND), (1.0, 1.3, UNSURE), (None, None, UNSURE)]
)
def test_a_verdict_needs_the_whole_interval(low: float | None, high: float | None, verdict: str) -> None:
    assert judged(low, high).verdict == verdict


def test_found_again_needs_the_published_mechanism() -> None:
    other = judged(1.3, 1.6, bound="CPU")
    assert (other.verdict, other.reason) == (OTHER_MECHANISM, "disk old: limited by CPU")
    assert judged(1.3, 1.6, bound=None).verdict == NOT_JUDGED
    assert judged(1.3, 1.6, replace(FINDING, mechanism=replace(MECHANISM, is_same=False))).verdict == OTHER_MECHANISM
    assert judged(0.9, 1.1, bound="neither").verdict == NOT_FOUND
    waits = replace(FINDING, limited_by={"over": "latency"})
    assert judged(1.3, 1.6, waits, bound="neither").verdict == FOUND
    assert judged(1.3, 1.6, waits, bound="storage").verdict == OTHER_MECHANISM


def test_an_arm_that_the_cpu_limits_says_nothing_about_its_storage() -> None:
    assert judged(0.9, 1.1, bound="CPU").verdict == NOT_JUDGED
    assert judged(0.9, 1.1, replace(FINDING, limited_by={"over": "CPU"}), bound="CPU").verdict == NOT_FOUND


def test_a_count_shows_a_mechanism_only_if_it_differs_in_the_right_direction() -> None:
    fewer = replace(FINDING, limited_by={}, counts=("reads",))
    assert judged(1.3, 1.6, fewer, count=0.5).verdict == FOUND
    assert judged(1.3, 1.6, fewer, count=1.0).verdict == OTHER_MECHANISM
    assert judged(1.3, 1.6, fewer, count=2.0).verdict == OTHER_MECHANISM
    assert judged(1.3, 1.6, replace(fewer, quantity="calls"), count=2.0).verdict == FOUND
    missing = judged(1.3, 1.6, fewer)
    assert (missing.verdict, missing.reason) == (NOT_JUDGED, "read calls per event: not measured")


@pytest.mark.parametrize(("is_busy", "is_quick"), [(True, False), (None, False), (False, True)])
def test_disturbed_and_quick_samples_have_no_verdict(is_busy: bool | None, is_quick: bool) -> None:
    assert judged(1.3, 1.6, is_busy=is_busy, is_quick=is_quick).verdict == NOT_JUDGED
    assert judged(0.1, 0.2, is_busy=is_busy, is_quick=is_quick).verdict == NOT_JUDGED
    assert judge(FINDING, None, [], is_quick=False).verdict == UNMEASURED


def test_a_verdict_follows_from_the_samples_of_a_study() -> None:
    (pair,) = (one for one in PAIRS if one.name == "gsi-test-1-4")
    study = study_without_places(pair.asked)

    def taken(disk_busy_share: float, scale: float = 1.0) -> list[StudySample]:
        sizes = (("level 1", 50.0, 2.5 * GB), ("uncompressed", 80.0, 10 * GB))
        arms = [(name, wall_s * scale, round(size * scale)) for name, wall_s, size in sizes]
        return [
            StudySample(
                number,
                0,
                f"data {name}",
                "arm",
                "",
                wall_s * (number + 1),
                [JobOutcome(0, wall_s=wall_s, cpu_s=0.1, events=100, bytes_read=read)],
                read,
                surroundings=Surroundings(cores=2, device_busy_share=disk_busy_share),
            )
            for number in range(6)
            for name, wall_s, read in arms
        ]

    def verdict_of(samples: list[StudySample]) -> Judgement:
        ratios = ratios_of(pair.published, Samples(study, samples))
        (found,) = judgements(pair.published, result_of(study, 1, samples), ratios, is_quick=False)
        return found

    found = verdict_of(taken(0.95))
    assert found.ratio is not None
    assert found.ratio.value == pytest.approx(1.6)
    assert found.verdict == FOUND
    assert found.reason == "data uncompressed: limited by storage, bytes read per event: 0.25 times as many"
    assert verdict_of(taken(0.1)).verdict == OTHER_MECHANISM
    small = verdict_of(taken(0.95, scale=0.1))
    assert (small.verdict, small.reason) == (
        NOT_JUDGED,
        "a job of data uncompressed reads 1.02 GB, and 2.00 GB are needed",
    )
    short = verdict_of(taken(0.95, scale=0.005))
    assert (short.verdict, short.reason[:30]) == (NOT_JUDGED, "samples of data level 1 take 8")
    busy = [replace(one, surroundings=replace(one.surroundings, others_share=0.5)) for one in taken(0.95)]
    assert verdict_of(busy).verdict == NOT_JUDGED


def test_the_log_has_no_verdicts() -> None:
    for pair in PAIRS:
        record = records.read(pair.name)
        text = summary(record) if record is not None else ""
        assert "found" not in text, text


def test_pages_name_every_study_even_if_nothing_was_measured(tmp_path: Path) -> None:
    write(tmp_path / "docs", tmp_path / "no-records")
    for pair in PAIRS:
        page = (tmp_path / "docs" / f"{pair.published.document}.md").read_text()
        assert pair.published.title in page
        assert "**Not examined:**" in page
    assert "make studies" in (tmp_path / "docs" / "index.md").read_text()


def test_pages_of_the_quick_form_have_no_verdict(tmp_path: Path) -> None:
    (pair,) = (one for one in PAIRS if one.name == "esd-table-2")
    record = records.read(pair.name)
    assert record is not None
    records.write(replace(record, is_quick=True), tmp_path / "kept")
    write(tmp_path / "docs", tmp_path / "kept")
    page = (tmp_path / "docs" / "esd.md").read_text()
    section = " ".join(page[page.index("Table 2: ") :].split())
    assert "*Provisional: measured with small files and one round.*" in section
    assert "not judged, since the quick form has small files and one round" in section
    assert "**The fastest arm" not in section
    assert "| not found |" not in section


def test_the_emulation_of_disks_is_a_server_of_each_arm() -> None:
    study = Study(
        "?",
        JobSettings(servers=("nginx",)),
        (Factor("x", (Level("a", {"servers": "xrootd"}), Level("b", {"servers": ["x", "y"]}), Level("c", {}))),),
    )
    names = [arm.settings.servers for arm in with_disks_as_servers(study).arms()]
    assert names == [("xrootd", "emulated-disk"), ("x", "y", "emulated-disk"), ("nginx", "emulated-disk")]
