"""The place of every read is known through `dup`, `fork`, threads and new programs, as the kernel keeps it."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.tracing.descriptors import Followed, Follower
from branchline.tracing.strace_lines import moment, parse, read_calls

PATH = "/data/a.root"


def followed(*lines: str | tuple[int, str]) -> Followed:
    """What is found in calls of one thread, or of the threads given with them, a microsecond after each other."""
    calls = []
    for number, line in enumerate(lines):
        thread, text = line if isinstance(line, tuple) else (1, line)
        call = parse(thread, f"1700000000.{number:06d}000 {text} <0.000000500>")
        assert call is not None, text
        calls.append(call)
    return Follower().follow(calls)


def places(found: Followed) -> list[tuple[int | None, int]]:
    return [(read.offset, read.got_bytes) for read in found.reads]


def opened(number: int = 3, flags: str = "O_RDONLY") -> str:
    return f'openat(AT_FDCWD</>, "a.root", {flags}) = {number}<{PATH}>'


def read(number: int = 3, got: int = 10) -> str:
    return f'read({number}<{PATH}>, ""..., 100) = {got}'


def sought(to: int, number: int = 3) -> str:
    return f"lseek({number}<{PATH}>, {to}, SEEK_SET) = {to}"


def test_reads_go_on_where_the_last_one_ended() -> None:
    assert places(followed(opened(), read(), read(), sought(500), read())) == [(0, 10), (10, 10), (500, 10)]


def test_a_read_at_a_place_moves_nothing() -> None:
    at = f'pread64(3<{PATH}>, ""..., 100, 700) = 100'
    assert places(followed(opened(), read(), at, read())) == [(0, 10), (700, 100), (10, 10)]


def test_every_opening_has_a_place_of_its_own_and_a_duplicate_has_not() -> None:
    twice = followed(opened(3), opened(4), read(3), read(4), f"dup(3<{PATH}>) = 5<{PATH}>", read(5), read(3))
    assert places(twice) == [(0, 10), (0, 10), (10, 10), (20, 10)]


def test_a_number_that_is_used_again_is_another_file() -> None:
    assert places(followed(opened(), read(), f"close(3<{PATH}>) = 0", opened(), read())) == [(0, 10), (0, 10)]


def test_a_forked_process_shares_places_and_has_its_own_numbers() -> None:
    fork = "clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 2"
    found = followed(opened(), read(), fork, (2, read()), (2, f"close(3<{PATH}>) = 0"), read())
    assert places(found) == [(0, 10), (10, 10), (20, 10)]
    assert [one.process for one in found.reads] == [1, 2, 1]


def test_threads_share_their_numbers() -> None:
    thread = "clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, exit_signal=0}, 88) = 2"
    found = followed(thread, (2, opened()), (1, read()), (2, read()))
    assert places(found) == [(0, 10), (10, 10)]
    assert {one.process for one in found.reads} == {1}


def test_a_child_that_reads_before_its_parent_returns_is_known() -> None:
    begin = parse(1, f"1700000000.000000000 {opened()} <0.000000001>")
    fork = parse(1, "1700000000.000001000 clone(flags=SIGCHLD) = 2 <0.001000000>")
    inside = parse(2, f"1700000000.000500000 {read()} <0.000000001>")
    assert begin is not None
    assert fork is not None
    assert inside is not None
    assert places(Follower().follow([begin, fork, inside])) == [(0, 10)]


def test_a_new_program_keeps_what_does_not_close() -> None:
    run = 'execve("/bin/cat", ["cat"], 0x7 /* 2 vars */) = 0'
    assert places(followed(opened(), read(), run, read())) == [(0, 10), (10, 10)]
    closing = followed(opened(3, "O_RDONLY|O_CLOEXEC"), read(), run, read())
    assert places(closing) == [(0, 10), (None, 10)]
    assert closing.programs[1] == "/bin/cat"


def test_a_descriptor_from_elsewhere_has_no_known_place_until_it_is_moved() -> None:
    assert places(followed(read(), sought(40), read())) == [(None, 10), (40, 10)]


def test_vectors_copies_and_mappings_are_seen() -> None:
    found = followed(
        opened(),
        f'preadv(3<{PATH}>, [{{iov_base="", iov_len=6}}, {{iov_base="", iov_len=4}}], 2, 90) = 8',
        f"sendfile(4</out>, 3<{PATH}>, [20] => [50], 30) = 30",
        f"copy_file_range(3<{PATH}>, NULL, 4</out>, NULL, 9223372035781033984, 0) = 50",
        f"mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3<{PATH}>, 0x1000) = 0x7f0000000000",
        "io_uring_setup(8, {flags=0}) = 5<anon_inode:[io_uring]>",
    )
    assert places(found) == [(90, 8), (20, 30), (0, 50), (4096, 0)]
    assert [one.size_bytes for one in found.reads] == [10, 30, 50, 4096]
    assert found.rings == 1


def test_bytes_that_came_from_a_server_are_counted_whoever_reads_them() -> None:
    address = '{sa_family=AF_INET, sin_port=htons(1094), sin_addr=inet_addr("127.0.0.1")}, 16'
    found = followed(
        f"connect(5<socket:[77]>, {address}) = -1 EINPROGRESS (Operation now in progress)",
        'recvfrom(5<socket:[77]>, ""..., 100, 0, NULL, NULL) = 60',
        "recvfrom(5<socket:[77]>, 0x7f, 100, 0, NULL, NULL) = -1 EAGAIN (Resource temporarily unavailable)",
        (2, 'read(5<socket:[77]>, ""..., 100) = 30'),
        "recvmsg(6<socket:[78]>, {msg_name=NULL}, 0) = 1000",
    )
    assert found.servers == {"127.0.0.1:1094": 90}
    assert places(found) == []


def test_calls_of_many_threads_come_in_the_order_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.tracing.strace_lines.STREAMED_MAX", 2)
    for thread in range(5):
        lines = [f"1700000000.{7 * n + thread:09d} close({n}) = 0 <0.000000001>\n" for n in range(10 * thread)]
        (tmp_path / f"calls.{thread}").write_text("".join(lines))
    calls = list(read_calls(tmp_path, "calls"))
    assert len(calls) == 100
    assert calls == sorted(calls, key=moment)
