"""Lines of strace become calls, whatever their paths and arguments hold."""

from __future__ import annotations

import pytest

from branchline.errors import BadFileError
from branchline.tracing.strace_lines import descriptor, parse, split_arguments, unescaped


def test_a_read_is_a_call_with_its_times() -> None:
    call = parse(7, '1700000000.000000005 read(3</data/a.root>, ""..., 300) = 300 <0.000000010>')
    assert call is not None
    assert (call.thread, call.name, call.value, call.error) == (7, "read", 300, None)
    assert call.arguments == ["3</data/a.root>", '""...', "300"]
    assert call.begin_ns == 1_700_000_000_000_000_005
    assert call.end_ns - call.begin_ns == 10


def test_an_error_is_told_by_its_name() -> None:
    line = (
        '1700000000.000000005 openat(AT_FDCWD</x>, "b", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000000010>'
    )
    call = parse(7, line)
    assert call is not None
    assert (call.value, call.error) == (-1, "ENOENT")


@pytest.mark.parametrize(
    "line",
    [
        "1700000000.000000005 +++ exited with 0 +++",
        "1700000000.000000005 +++ killed by SIGKILL +++",
        "1700000000.000000005 read(3</data/a.ro",
        "",
    ],
)
def test_a_line_without_a_call_is_none(line: str) -> None:
    assert parse(7, line) is None


def test_a_call_that_did_not_end_read_nothing() -> None:
    call = parse(7, "1700000000.000000005 read(3</data/a.root>,  <unfinished ...>) = ?")
    assert call is not None
    assert (call.name, call.value) == ("read", -1)


def test_a_line_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(BadFileError, match="cannot parse a line"):
        parse(7, "1700000000.000000005 read 3 300) = 300 <0.000000010>")


@pytest.mark.parametrize("path", ["/a, b)(.root", '/with "quotes".root', "/a = 3.root", "/brackets[1]{2}.root"])
def test_paths_may_hold_anything(path: str) -> None:
    line = f'1700000000.000000005 pread64(3<{path}>, ""..., 10, 20) = 10 <0.000000010>'
    call = parse(7, line)
    assert call is not None
    assert call.value == 10
    assert descriptor(call.arguments[0]) == (3, path)
    assert call.arguments[2:] == ["10", "20"]


def test_letters_that_strace_escapes_come_back() -> None:
    assert unescaped(r"/a\76b\303\251\n\\.root") == "/a>b\u00e9\n\\.root"
    assert descriptor("4<socket:[123]>") == (4, None)
    assert descriptor("5</gone.root>(deleted)") == (5, "/gone.root")


def test_lists_and_shifts_part_no_arguments() -> None:
    text = '3</a.root>, [{iov_base="", iov_len=10}, {iov_base="", iov_len=5}], 2, 1<<3'
    assert split_arguments(text) == ["3</a.root>", text[12:-9], "2", "1<<3"]
