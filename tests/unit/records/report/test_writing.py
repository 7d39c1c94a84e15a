"""The whole of what a job leaves behind, and running again into the same directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import hist
import numpy
import pyarrow.parquet
import pytest
import uproot

from branchline.errors import InternalError, WagonError
from branchline.records import output
from branchline.records.output import write_out
from branchline.records.sensors.record import AccessRecord, JobRecord
from branchline.records.sensors.sensor_list import SensorRow


class Result:
    """A finished job, as far as the report needs it; remembers when its clock was closed."""

    def __init__(self, job: dict[str, Any], outputs: dict[str, Any]) -> None:
        self.record = JobRecord.from_dict(job)
        self.outputs = outputs
        self.sensors = [SensorRow("job", "", "wall_s", 12.0, "s")]
        self.there_at_close: list[str] = []
        self.out_dir: Path | None = None

    def close_clock(self) -> None:
        if self.out_dir is not None:
            self.there_at_close = sorted(path.name for path in self.out_dir.iterdir())
        self.record.phases["write"] = 0.5

    @property
    def job(self) -> dict[str, Any]:
        return self.record.as_dict()


def _spectrum() -> Any:
    return hist.Hist.new.Reg(20, 0, 10, label="pT [GeV]").Weight().fill(numpy.linspace(0, 12, 50))


def _outputs() -> dict[str, Any]:
    four = hist.Hist.new.Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Reg(2, 0, 1).Double()
    return {
        "spectra": {"pp": {"pt": _spectrum()}, "events": 7},
        "bare": _spectrum(),
        "odd": {"four": four, "selected": numpy.arange(3)},
        "nothing": None,
    }


def test_everything_is_written_and_listed(tmp_path: Path, job: dict[str, Any]) -> None:
    written = write_out(tmp_path, Result(job, _outputs()))
    assert sorted(written) == sorted(path for path in tmp_path.rglob("*") if path.is_file())
    names = {str(path.relative_to(tmp_path)) for path in written}
    assert names >= {"results.root", "job.json", "sensors.parquet", "report.html", "results/spectra.json"}
    assert names >= {"results/spectra/pp/pt.json", "pictures/spectra/pp/pt.svg"}
    assert not [one for one in names if one.endswith(".png")]
    stored = json.loads((tmp_path / "results" / "spectra.json").read_text())
    assert stored == {"pp": {"pt": {"file": "results/spectra/pp/pt.json"}}, "events": 7}
    assert json.loads((tmp_path / "results" / "nothing.json").read_text()) is None
    with uproot.open(tmp_path / "results.root") as file:
        assert set(file.keys(cycle=False, filter_classname="TH1D")) == {"spectra/pp/pt", "bare"}


def test_a_wagon_that_returns_a_histogram_keeps_it(tmp_path: Path, job: dict[str, Any]) -> None:
    write_out(tmp_path, Result(job, {"bare": _spectrum()}))
    stored = json.loads((tmp_path / "results" / "bare.json").read_text())
    assert stored["storage"]["type"] == "weighted"
    assert sum(stored["storage"]["values"]) == 50


def test_what_root_cannot_hold_is_listed_with_its_reason_and_its_file(tmp_path: Path, job: dict[str, Any]) -> None:
    write_out(tmp_path, Result(job, _outputs()))
    results = json.loads((tmp_path / "job.json").read_text())["results"]
    (row,) = [row for row in results if row["key"] == "four"]
    assert row["root"] == []
    assert "4 axes" in row["note"]
    assert (tmp_path / row["files"][0]).exists()
    assert "4 axes" in (tmp_path / "report.html").read_text()


def test_the_clock_is_closed_after_the_results_and_before_the_records(tmp_path: Path, job: dict[str, Any]) -> None:
    result = Result(job, _outputs())
    result.out_dir = tmp_path
    write_out(tmp_path, result)
    assert result.there_at_close == ["pictures", "results", "results.root"]
    assert json.loads((tmp_path / "job.json").read_text())["phases"]["write"] == 0.5


def test_job_json_holds_the_record_as_it_was(tmp_path: Path, job: dict[str, Any]) -> None:
    result = Result(job, {})
    result.record.events = numpy.int64(3)
    result.record.access = AccessRecord(cache_dir="/data")
    result.record.machine_cpu_s = float("nan")
    write_out(tmp_path, result)
    stored = json.loads((tmp_path / "job.json").read_text())
    assert stored["files"] == result.job["files"]
    assert stored["timeline"] == result.job["timeline"]
    assert stored["events"] == 3
    assert stored["machine_cpu_s"] == "nan"
    assert stored["access"]["cache_dir"] == "/data"


def test_sensors_are_rows_of_text_and_a_number(tmp_path: Path, job: dict[str, Any]) -> None:
    result = Result(job, {})
    result.sensors.append(SensorRow("file", "/a.root", "events", 7.0, "events"))
    write_out(tmp_path, result)
    table = pyarrow.parquet.read_table(tmp_path / "sensors.parquet")
    assert table.column_names == ["scope", "name", "sensor", "value", "unit"]
    assert table.to_pylist()[0] == {"scope": "job", "name": "", "sensor": "wall_s", "value": 12.0, "unit": "s"}
    assert table.to_pylist()[1]["value"] == 7.0


def test_a_second_job_in_the_same_directory_leaves_nothing_of_the_first_but_foreign_files(
    tmp_path: Path, job_with: Any
) -> None:
    write_out(tmp_path, Result(job_with(), _outputs()))
    (tmp_path / "pictures" / "mine.txt").write_text("not Branchline's")
    written = write_out(tmp_path, Result(job_with(), {"spectra": {"eta": _spectrum()}}))
    left = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*written, tmp_path / "pictures" / "mine.txt"}


def test_a_record_that_names_files_outside_of_the_directory_removes_none_of_them(tmp_path: Path, job: Any) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("keep")
    out_dir = tmp_path / "out"
    out_dir.mkdir()
    (out_dir / "job.json").write_text(json.dumps({"written": ["../outside.txt", str(outside)]}))
    write_out(out_dir, Result(job, {}))
    assert outside.read_text() == "keep"


def test_pictures_are_drawn_as_asked_for(tmp_path: Path, job_with: Any) -> None:
    histogram = {"w": {"h": _spectrum()}}
    for kind, endings in (("both", {".svg", ".png"}), ("svg", {".svg"}), ("none", set())):
        written = write_out(tmp_path, Result(job_with(), histogram), pictures=kind)
        assert {one.suffix for one in written if "pictures" in one.parts} == endings
        assert {one.suffix for one in tmp_path.rglob("pictures/**/*.*")} == endings


def test_a_note_is_added_to_those_before_it(
    tmp_path: Path, job: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PICTURES_MAX", 0)
    five_dimensions = hist.Hist(*(hist.axis.Regular(2, 0, 1, name=f"x{index}") for index in range(5)))
    result = Result(job, {"wide": {"five": five_dimensions}})
    write_out(tmp_path, result)
    note = result.record.results[0].note
    assert note is not None
    assert note.startswith("not in results.root: ")
    assert note.endswith("; no picture: only the first 0 histograms are drawn")


class _CannotBeDrawn(hist.Hist):
    """A histogram of a user's own class, with a fault that shows only when it is drawn."""

    def variances(self, flow: bool = False) -> Any:
        raise AttributeError("no axes here")


class _CannotBeShown:
    """A value of which nothing can be said."""

    def __repr__(self) -> str:
        raise RuntimeError("no text for this")


def test_a_picture_that_cannot_be_drawn_is_named_and_all_else_is_written(tmp_path: Path, job: dict[str, Any]) -> None:
    four = _CannotBeDrawn(*(hist.axis.Regular(2, 0, 1, name=f"x{index}") for index in range(4)))
    four.fill(*([0.5], [0.5], [0.5], [0.5]))
    result = Result(job, {"wide": {"four": four}, "bare": _spectrum()})
    write_out(tmp_path, result)
    rows = {row.wagon: row for row in result.record.results if row.kind == "histogram"}
    assert "no picture: AttributeError: no axes here" in str(rows["wide"].note)
    assert (tmp_path / rows["wide"].files[0]).exists()
    assert rows["bare"].picture is not None
    assert "AttributeError: no axes here" in (tmp_path / "report.html").read_text()
    assert json.loads((tmp_path / "job.json").read_text())["results"]


def test_an_output_that_cannot_be_written_is_an_error_and_all_else_is_written(
    tmp_path: Path, job: dict[str, Any]
) -> None:
    result = Result(job, {"odd": {"value": _CannotBeShown()}, "bare": _spectrum()})
    result.record.status = "finished"
    with pytest.raises(WagonError, match=r"wagon odd: its output .* RuntimeError: no text for this"):
        write_out(tmp_path, result)
    assert (tmp_path / "results" / "bare.json").exists()
    stored = json.loads((tmp_path / "job.json").read_text())
    assert stored["status"] == "partial"
    assert "RuntimeError: no text for this" in stored["errors"][-1]["message"]
    assert "no text for this" in stored["errors"][-1]["traceback"]
    assert "no text for this" in (tmp_path / "report.html").read_text()


def test_a_histogram_that_cannot_be_written_leaves_the_rest_of_its_wagon(tmp_path: Path, job: dict[str, Any]) -> None:
    class CannotBeStored(hist.Hist):
        def view(self, flow: bool = False) -> Any:
            raise LookupError("no view")

    odd = CannotBeStored(hist.axis.Regular(2, 0, 1))
    result = Result(job, {"mixed": {"odd": odd, "good": _spectrum(), "events": 7}})
    with pytest.raises(WagonError, match=r"mixed: .*odd.* LookupError: no view"):
        write_out(tmp_path, result)
    stored = json.loads((tmp_path / "results" / "mixed.json").read_text())
    assert stored["events"] == 7
    assert stored["good"] == {"file": "results/mixed/good.json"}
    assert "LookupError: no view" in stored["odd"]["error"]
    with uproot.open(tmp_path / "results.root") as file:
        assert file.keys(cycle=False, filter_classname="TH1D") == ["mixed/good"]


def test_a_page_that_fails_does_not_take_the_record_with_it(tmp_path: Path, job: dict[str, Any]) -> None:
    result = Result(job, {"bare": _spectrum()})
    cast("Any", result.record.timeline[0]).t_s = None
    with pytest.raises(InternalError, match=r"report\.html could not be written: TypeError"):
        write_out(tmp_path, result)
    stored = json.loads((tmp_path / "job.json").read_text())
    assert stored["status"] == "partial"
    assert stored["errors"][-1]["type"] == "InternalError"
    assert "report.html" not in stored["written"]
