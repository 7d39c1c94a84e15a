"""Internal errors are reported as such, never as bad files, and no option skips them."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from tests.unit.reading.trees.conftest import Sample

import branchline
from branchline import InternalError
from branchline.cli.printing import errors_printed
from branchline.errors import FILE_ERRORS
from branchline.reading import bridge
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.writing.merging.merge import merge

FAULTY = "fsspec+memory://faulty.root"


@pytest.fixture(autouse=True)
def faulty_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of ours that is wrong: it is called where files are opened by fsspec."""

    def open_wrongly(url: str, patience_s: float) -> None:
        raise TypeError(f"no {url} within {patience_s > 0}")

    monkeypatch.setattr(bridge, "open_by_fsspec", open_wrongly)


def assert_is_ours(error: InternalError, *parts: str) -> None:
    assert not isinstance(error, FILE_ERRORS)
    assert not error.retry
    for part in ("internal error in Branchline", "please report it", branchline.__version__, *parts):
        assert part in str(error)


def test_it_is_an_error_of_its_own_which_names_the_file_and_what_to_report() -> None:
    with pytest.raises(InternalError) as raised:
        branchline.open(FAULTY)
    assert_is_ours(raised.value, "memory://faulty.root", "TypeError")
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (InternalError, str(raised.value))


def test_streams_do_not_skip_it(samples: list[Sample]) -> None:
    paths = [str(samples[0].path), FAULTY, str(samples[1].path)]
    stream = ChunkStream([Source(path) for path in paths], ["number"], skip_bad_files=True)
    with pytest.raises(InternalError):
        sum(len(chunk) for chunk in stream)
    assert not stream.skipped


def test_merges_do_not_skip_it(samples: list[Sample], tmp_path: Path) -> None:
    with pytest.raises(InternalError):
        merge([str(samples[0].path), FAULTY], tmp_path / "all.root", skip_bad_files=True)
    assert not list(tmp_path.iterdir())


def test_a_command_that_meets_one_says_what_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit), errors_printed(debug=False):
        raise KeyError("what nobody has")
    said = capsys.readouterr().err
    for part in ("internal error in Branchline", "KeyError", "please report it", branchline.__version__, "--debug"):
        assert part in said
