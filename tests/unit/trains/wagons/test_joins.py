"""Trains read all folders of AO2D files, with the rows of other tables that refer to each event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.ao2d import Folder, flat, folder, write_ao2d
from tests.branchline_command import run_branchline

import branchline
from branchline.base.quantities import count
from branchline.reading.access import Access
from branchline.records.report.job_summary import summary
from branchline.records.report.sections import conditions

JOIN = {"Tracks": "O2track_iu + O2trackextra_002 by fIndexCollisions", "V0s": "O2v0_002 by fIndexCollisions"}
ORDERS = ("sorted", "shuffled", "between", "first", "sorted")
PATTERN = "DF_*/O2collision_001"


@pytest.fixture(scope="module")
def folders() -> list[Folder]:
    """Five folders in two files; the third is empty."""
    counts = (40, 30, 0, 25, 20)
    return [
        folder(number, count, order=order) for number, (count, order) in enumerate(zip(counts, ORDERS, strict=True))
    ]


@pytest.fixture(scope="module")
def ao2d(folders: list[Folder], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files with these folders."""
    path = tmp_path_factory.mktemp("ao2d")
    write_ao2d(path / "AO2D-0.root", folders[:3])
    write_ao2d(path / "AO2D-1.root", folders[3:])
    return path


def joined(events: Any) -> Any:
    """What each event finds in its joins."""
    tracks = events.Tracks
    return {
        "z": events.fPosZ.to_list(),
        "tgl": tracks.fTgl.to_list(),
        "clusters": tracks.fTPCNCls.to_list(),
        "positive": tracks[tracks.fSigned1Pt > 0].fTgl.to_list(),
        "v0s": ak.num(events.V0s.fIndexTracks_Pos).to_list(),
        "central": events[abs(events.fPosZ) < 2].Tracks.fTgl.to_list(),
        "places": [(events.metadata["treename"], events.metadata["entrystart"], events.metadata["entrystop"])],
    }


def wanted(folders: list[Folder]) -> dict[str, list[Any]]:
    """The same, row by row."""
    found: dict[str, list[Any]] = {name: [] for name in ("z", "tgl", "clusters", "positive", "v0s", "central")}
    for one in folders:
        z = one.tables["O2collision_001"]["fPosZ"].tolist()
        tgl, charge = one.tracks_of("fTgl"), one.tracks_of("fSigned1Pt")
        found["z"] += z
        found["tgl"] += tgl
        found["clusters"] += one.tracks_of("fTPCNCls", table="O2trackextra_002")
        found["positive"] += [
            [value for value, sign in zip(*pair, strict=True) if sign > 0] for pair in zip(tgl, charge, strict=True)
        ]
        found["central"] += [values for values, place in zip(tgl, z, strict=True) if abs(place) < 2]
        index = one.tables["O2v0_002"]["fIndexCollisions"]
        found["v0s"] += [int(np.sum(index == collision)) for collision in range(len(z))]
    return found


def run(ao2d: Path, wagon: Any = joined, **options: Any) -> Any:
    return branchline.run([wagon], f"{ao2d}/AO2D-*.root:{PATTERN}", **{"join": JOIN} | options)


@pytest.mark.parametrize("step", [7, "100 MB"])
@pytest.mark.parametrize("workers", [0, 2])
def test_every_event_finds_the_rows_that_refer_to_it(
    ao2d: Path, folders: list[Folder], workers: int, step: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 1)
    result = run(ao2d, workers=workers, step_size=step)
    assert (result.exit_code, result.errors) == (0, [])
    got = result.outputs["joined"]
    places = got.pop("places")
    assert got == wanted(folders)
    with_events = [one for one in folders if len(one.tables["O2collision_001"]["fPosZ"])]
    assert len(result.outputs["joined"]["z"]) == result.job["events"] == result.job["events_expected"] == 115
    # Chunks end with their folder, and entries are counted in each folder.
    ranges: dict[str, list[int]] = {}
    for tree, start, stop in places:
        ranges.setdefault(tree, []).extend(range(start, stop))
    sizes = {f"{one.name}/O2collision_001": len(one.tables["O2collision_001"]["fPosZ"]) for one in with_events}
    assert ranges == {tree: list(range(size)) for tree, size in sizes.items()}
    assert (len(places) == len(sizes)) == (step != 7)
    negative = sum(int(np.sum(one.tables["O2track_iu"]["fIndexCollisions"] < 0)) for one in folders)
    rows = sum(len(one.tables["O2track_iu"]["fIndexCollisions"]) for one in folders) - negative
    assert result.job["joins"][0] == {"name": "Tracks", "rows": rows, "negative": negative}
    said = f"Tracks: {count(rows)} rows joined, {negative} rows with a negative index left out"
    assert f"{said}." in summary(result.record)
    assert dict(conditions(result.record))["Joins"].startswith(said)
    branches = {"fPosZ", "Tracks:fTgl", "Tracks:fTPCNCls", "Tracks:fSigned1Pt"}
    assert set(result.job["wagons"][0]["branches"]) == branches
    files = {Path(one["path"]).name: (one["entries"], one["folders"], one["events"]) for one in result.job["files"]}
    assert files == {"AO2D-0.root": (70, 3, 70), "AO2D-1.root": (45, 2, 45)}
    # No branch that a wagon does not use is read.
    assert {one["name"] for one in result.job["branches"]} == {"fPosZ"}


def test_results_are_the_same_for_any_number_of_workers_and_are_reused(ao2d: Path, tmp_path: Path) -> None:
    totals = [run(ao2d, total, workers=workers, step_size=11).outputs["total"] for workers in (0, 1, 2)]
    assert totals[0] == totals[1] == totals[2]
    # Results are reused only if all code is known, so the wagon is in a file of its own.
    wagons, files = tmp_path / "wagons.py", f"{ao2d}/AO2D-*.root:{PATTERN}"
    wagons.write_text("import awkward as ak\n\ndef rows(events):\n    return int(ak.sum(ak.num(events.Tracks.fTgl)))\n")
    chosen: dict[str, Any] = {"out": str(tmp_path / "out"), "workers": 0}
    first = branchline.run(f"{wagons}:rows", files, join=JOIN, **chosen)
    again = branchline.run(f"{wagons}:rows", files, join=JOIN, **chosen)
    assert again.outputs == first.outputs
    assert again.job["subjobs_reused"] == first.job["subjobs"] > 0
    assert again.job["joins"] == first.job["joins"]
    assert again.job["events_expected"] == 115
    assert [(one["entries"], one["folders"]) for one in again.job["files"]] == [(70, 3), (45, 2)]
    other = branchline.run(f"{wagons}:rows", files, join=JOIN | {"V0s": "O2v0_002 by fIndexTracks_Pos"}, **chosen)
    assert other.job["subjobs_reused"] == 0


def total(events: Any) -> dict[str, float]:
    """A sum of floating-point numbers, and the number of rows."""
    first = events.Tracks[events.Tracks.fields[-1]]
    return {"sum": float(np.sum(flat(first))), "rows": int(ak.sum(ak.num(first)))}


def test_companions_of_folders_are_read_row_by_row(ao2d: Path, folders: list[Folder]) -> None:
    def clusters(events: Any) -> Any:
        extra = events.companion["O2trackextra_002"]
        return {"tgl": events.fTgl.to_list(), "clusters": extra.fTPCNCls.to_list()}

    files = f"{ao2d}/AO2D-*.root:DF_*/O2track_iu"
    got = branchline.run([clusters], files, companions=["{folder}/O2trackextra_002"], workers=0, step_size=100)
    assert got.errors == []
    assert got.outputs["clusters"]["tgl"] == flat([one.tables["O2track_iu"]["fTgl"] for one in folders])
    assert got.outputs["clusters"]["clusters"] == flat([one.tables["O2trackextra_002"]["fTPCNCls"] for one in folders])
    # A companion in another file, too.
    elsewhere = [f"x={ao2d}/AO2D-0.root:{{folder}}/O2trackextra_002"]
    one = f"{ao2d}/AO2D-0.root:DF_*/O2track_iu"
    assert branchline.run([named], one, companions=elsewhere, workers=0).outputs["named"] == sum(
        int(one.tables["O2trackextra_002"]["fTPCNCls"].astype(int).sum()) for one in folders[:3]
    )


def named(events: Any) -> int:
    """A sum over a companion."""
    return int(ak.sum(ak.values_astype(events.companion["x"].fTPCNCls, "int64")))


def test_a_fileset_has_joins_and_names_trees_by_a_pattern(ao2d: Path, folders: list[Folder], tmp_path: Path) -> None:
    listed = {"lhc": {"files": {f"{ao2d}/AO2D-*.root": PATTERN}, "join": JOIN}}
    (tmp_path / "set.json").write_text(json.dumps(listed))
    (tmp_path / "set.toml").write_text(
        f'[lhc]\nfiles = ["{ao2d}/AO2D-*.root"]\ntree = "{PATTERN}"\n'
        'join = {Tracks = "O2track_iu by fIndexCollisions"}\n'
    )
    for name in ("set.json", "set.toml"):
        result = branchline.run([total], str(tmp_path / name), workers=0)
        assert (result.errors, result.job["events"]) == ([], 115)
    with_cycle = f"{ao2d}/AO2D-0.root:{folders[0].name};1/O2collision_001"
    assert branchline.run([total], with_cycle, workers=0, join=JOIN).job["events"] == 40


def test_a_missing_tree_stops_the_wagon_and_a_wrong_index_the_job(ao2d: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=r"there is no tree .*O2tracks.*did you mean"):
        run(ao2d, total, workers=0, join={"Tracks": "O2tracks by fIndexCollisions"})
    with pytest.warns(UserWarning, match=r"fIndexCollision.*did you mean fIndexCollisions"):
        run(ao2d, total, workers=0, join={"Tracks": "O2track_iu by fIndexCollision"})
    with pytest.warns(UserWarning, match=r"fTgl of DF_\d+/O2track_iu does not hold one integer for each row"):
        run(ao2d, total, workers=0, join={"Tracks": "O2track_iu by fTgl"})
    with pytest.warns(UserWarning, match=r"O2v0_002 has \d+ rows, but DF_\d+/O2track_iu has \d+, so"):
        run(ao2d, total, workers=0, join={"Tracks": "O2track_iu + O2v0_002 by fIndexCollisions"})
    with pytest.warns(
        UserWarning, match=r"stopped at .*AO2D-0.root:DF_\d+/O2coll.*the branch fIndexCollisions is in .* and in "
    ):
        run(ao2d, total, workers=0, join={"Tracks": "O2track_iu+O2track_iu by fIndexCollisions"})

    wrong = folder(9, 10)
    wrong.tables["O2track_iu"]["fIndexCollisions"][[3, 5]] = [10, 99]
    path = write_ao2d(tmp_path / "wrong.root", [wrong])
    what = r"2 indices in fIndexCollisions of DF_\d+/O2track_iu beyond the 10 rows of .*, the first in row 3: 10"
    with pytest.warns(UserWarning, match=what):
        result = branchline.run([total], f"{path}:{PATTERN}", join=JOIN, workers=0)
    assert result.exit_code == 1
    with pytest.warns(UserWarning, match=what):
        result = branchline.run([total], f"{path}:{PATTERN}", join=JOIN, workers=0, skip_bad_files=True)
    assert [one["entries_lost"] for one in result.job["skipped"]] == [10]


@pytest.mark.parametrize("step", [3, 1000])
def test_arrays_that_are_used_after_their_chunk_have_its_rows(ao2d: Path, folders: list[Folder], step: int) -> None:
    kept: list[ak.Array] = []

    def returned(events: Any) -> ak.Array:
        kept.append(events.Tracks)
        return events.Tracks.fTgl

    result = run(ao2d, returned, workers=0, step_size=step)
    assert (result.errors, result.outputs["returned"].to_list()) == ([], wanted(folders)["tgl"])
    assert [values for one in kept for values in one.fTPCNCls.to_list()] == wanted(folders)["clusters"]


def test_a_name_that_the_tree_has_is_refused(ao2d: Path) -> None:
    with pytest.warns(UserWarning, match="the tree also has a branch 'fPosZ'"):
        branchline.run([position], f"{ao2d}/AO2D-0.root:{PATTERN}", join={"fPosZ": JOIN["V0s"]}, workers=0)


def position(events: Any) -> int:
    """Use a name of the tree and of a join."""
    return len(events.fPosZ)


def test_columns_of_joins_are_varied(ao2d: Path) -> None:
    def shifted(events: Any) -> list[float]:
        return flat(events.Tracks.fTgl)

    varied = branchline.varied(shifted, columns={"up": {"Tracks.fTgl": lambda events: events.Tracks.fTgl + 1}})
    got = run(ao2d, varied, workers=0).outputs["shifted"]
    assert got["up"] == [np.float32(one) + 1 for one in got["nominal"]]
    unknown = branchline.varied(shifted, columns={"up": {"Tracks.fTg": lambda events: events.Tracks.fTgl}})
    with pytest.warns(UserWarning, match="the join 'Tracks' has no branch 'fTg'"):
        run(ao2d, unknown, workers=0)


def test_a_tree_without_a_folder_is_joined_as_well(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "flat.root") as file:
        file.mktree("Events", {"x": "f8"}).extend({"x": np.arange(5.0)})
        hits = {"event": np.array([4, 0, -1, 4, 2], "i8"), "charge": np.arange(5.0)}
        file.mktree("Hits", {name: values.dtype for name, values in hits.items()}).extend(hits)

    def charges(events: Any) -> Any:
        return events.Hits.charge.to_list()

    join = {"Hits": "Hits by event"}
    result = branchline.run([charges], f"{tmp_path}/flat.root:Events", join=join, workers=0, step_size=2)
    assert result.outputs["charges"] == [[1.0], [], [4.0], [], [0.0, 3.0]]
    assert result.job["joins"] == [{"name": "Hits", "rows": 4, "negative": 1}]


def test_the_file_is_opened_once_for_all_folders_of_a_sub_job(ao2d: Path) -> None:
    result = run(ao2d, total, workers=0, branches=["fPosZ"])
    assert result.job["subjobs"] == 1
    # The stream and the joins read a small file with one call each. Planning also opens the first file.
    calls = [(one["read_calls"], one["bytes_read"] // one["size_bytes"]) for one in result.job["files"]]
    assert calls == [(3, 3), (2, 2)]


def test_the_command_takes_patterns_and_joins(ao2d: Path, tmp_path: Path) -> None:
    wagon = "import awkward as ak\ndef tracks(events):\n    return int(ak.sum(ak.num(events.T.fTgl)))\n"
    (tmp_path / "wagons.py").write_text(wagon)
    data = [f"{ao2d}/AO2D-0.root", f"{ao2d}/AO2D-1.root", "--tree", PATTERN]
    command = ["run", "wagons.py:tracks", *data, "-o", "out", "-j", "1"]
    done = run_branchline(tmp_path, [*command, "--join", "T=O2track_iu by fIndexCollisions"])
    assert done.returncode == 0, done.stderr
    assert "with a negative index left out" in done.stdout
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert job["options"]["join"] == "T=O2track_iu by fIndexCollisions"
    assert "Joins" in (tmp_path / "out" / "report.html").read_text()
    wrong = run_branchline(tmp_path, [*command, "--force", "--join", "O2track_iu"])
    assert wrong.returncode == 1
    assert "'O2track_iu' is not a join (write NAME=TREE by BRANCH" in wrong.stderr


def places(events: Any) -> list[float]:
    """The position of each collision."""
    return flat(events.fPosZ)


def test_files_far_away_count_the_events_of_all_folders(
    ao2d: Path, folders: list[Folder], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 1)
    far = Access(requests_in_flight=4)
    each = [f"{ao2d}/AO2D-{int(number > 2)}.root:{one.name}/O2collision_001" for number, one in enumerate(folders)]
    for files in (f"{ao2d}/AO2D-*.root:{PATTERN}", each):
        result = branchline.run([places], files, workers=1, access=far)
        assert (result.errors, result.outputs["places"]) == ([], wanted(folders)["z"])
        events = {Path(one["path"]).name: one["events"] for one in result.job["files"]}
        assert events == {"AO2D-0.root": 70, "AO2D-1.root": 45}
