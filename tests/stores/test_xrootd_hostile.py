"""XRootD servers that wait, redirect, cut, mix up and lie: each read ends with the right bytes or with an error."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from tests.patience import HANG_S
from tests.stores.scripted_xrootd import (
    ATTENTION,
    AUTH,
    BIND,
    HANDLE,
    LOGIN,
    OK,
    OK_SO_FAR,
    OPEN,
    PGREAD,
    PROTOCOL,
    QUERY,
    READ,
    READV,
    REDIRECT,
    TLS_THERE_AND_NOW,
    WAIT,
    WAIT_FOR_ANSWER,
    XrootdScript,
    answer,
    error,
    held,
    late,
    pages,
    xrootd_script,
)

from branchline import Access
from branchline._core import Store
from branchline.errors import BadFileError, StorageError

CONTENT = random.Random(3).randbytes(30_000)
# Two ranges make a vector read, one a read of pages.
RANGES = [(10, 1000), (5000, 7)]
EXPECTED = [CONTENT[10:1010], CONTENT[5000:5007]]
READS = (READ, READV, PGREAD)
# Of one process to one server.
CONNECTIONS_MAX = 64


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    # So long that on a busy machine no connection is given up and made again: many tests count them.
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "30")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, few_tries: None) -> None:
    """For servers that are silent."""
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.4")


def read_all(url: str) -> None:
    store = Store(url)
    assert store.read(RANGES).contents == EXPECTED
    assert store.read([(4000, 9000)]).contents == [CONTENT[4000:13_000]]


def test_a_connection_serves_file_after_file_and_closes_each() -> None:
    with xrootd_script(CONTENT) as (url, script, server):
        for _ in range(20):
            read_all(url)
        assert server.connections == 1
        assert script.requests.count(LOGIN) == 1
        read_all(url)
        # Nobody waits for the answer to a close.
        end_s = time.monotonic() + HANG_S
        while script.open_handles and time.monotonic() < end_s:
            time.sleep(0.01)
        assert script.open_handles == 0


def test_many_reads_at_a_time_share_connections() -> None:
    # The first reads are answered when each has a connection to itself; the others wait for one of these.
    all_are_busy = threading.Barrier(CONNECTIONS_MAX)
    seen: set[int] = set()

    def first_waits(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code in READS and number not in seen:
            seen.add(number)
            all_are_busy.wait(20)
        return None

    with xrootd_script(CONTENT, first_waits) as (url, _, server):
        stores = [Store(url) for _ in range(CONNECTIONS_MAX + 36)]
        threads = [threading.Thread(target=store.read, args=(RANGES,)) for store in stores]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert not all_are_busy.broken
        assert server.connections == len(seen) == CONNECTIONS_MAX


def test_a_server_without_checksums_is_read_without() -> None:
    with xrootd_script(CONTENT, flags=0) as (url, script, _):
        read_all(url)
        assert PGREAD not in script.requests

    def no_pages(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        return error(stream, 3013, "what is that") if code == PGREAD else None

    with xrootd_script(CONTENT, no_pages) as (url, script, _):
        read_all(url)
        assert script.requests.count(PGREAD) == 1


def test_a_server_is_asked_for_its_limits_together_with_the_first_open() -> None:
    hook, due = held(CONTENT, OPEN, QUERY)
    with xrootd_script(CONTENT, hook) as (url, script, server):
        read_all(url)
        assert len(due) == 2
        assert script.requests[:5] == [PROTOCOL, LOGIN, OPEN, QUERY, READV]
        assert server.connections == 1


def test_limits_that_come_after_the_open_are_waited_for_and_kept_to() -> None:
    asked: list[int] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code == QUERY:
            limits = answer(stream, OK, b"2\n500\n\0")
            threading.Timer(0.2, script.connections[number].sendall, (limits,)).start()
            return b""
        if code == READV:
            asked.append(len(payload) // 16)
        return None

    ranges = [(offset, 5) for offset in range(0, 800, 100)]
    with xrootd_script(CONTENT, hook) as (url, script, _):
        assert Store(url).read(ranges).contents == [CONTENT[offset : offset + 5] for offset, _ in ranges]
    assert asked == [2, 2, 2, 2]


def test_a_server_is_told_who_we_are_and_asked_for_the_file_at_once() -> None:
    due: list[bytes] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code not in (PROTOCOL, LOGIN, OPEN):
            return None
        # None of the three is answered before all have come.
        due.append(XrootdScript(CONTENT).good(stream, code, arguments, payload))
        return b"".join(due) if code == OPEN else b""

    with xrootd_script(CONTENT, hook) as (url, _, server):
        read_all(url)
        assert (len(due), server.connections) == (3, 1)


def test_what_was_said_of_limits_holds_for_all_connections() -> None:
    seen: list[tuple[int, int]] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        seen.append((number, code))
        return b"hang up" if number == 0 and [code in READS for _, code in seen].count(True) == 2 else None

    with xrootd_script(CONTENT, hook) as (url, _, server):
        store = Store(url)
        assert store.read([(0, 5), (50, 5)]).contents == [CONTENT[:5], CONTENT[50:55]]
        assert store.read([(0, 5), (50, 5)]).contents == [CONTENT[:5], CONTENT[50:55]]
        assert server.connections == 2
    assert [number for number, code in seen if code == QUERY] == [0]


@pytest.mark.parametrize("secret", ["", "?authz=Bearer%20abc"])
def test_a_server_that_wanted_no_proof_is_asked_for_the_file_at_once(secret: str) -> None:
    first: list[int] = []
    second: list[int] = []
    due: list[bytes] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        (second if number else first).append(code)
        if number == 0:
            return b"hang up" if code in READS else None
        if secret or code not in (PROTOCOL, LOGIN, OPEN):
            return None
        # None of the three is answered before all have come.
        due.append(XrootdScript(CONTENT).good(stream, code, arguments, payload))
        return b"".join(due) if code == OPEN else b""

    with xrootd_script(CONTENT, hook) as (url, _, server):
        read_all(url + secret)
        assert server.connections == 2
    # A token waits until it is known that the server wants no TLS.
    expected = [PROTOCOL, LOGIN, QUERY, OPEN] if secret else [PROTOCOL, LOGIN, OPEN, QUERY]
    assert first[:4] == expected
    assert second[:3] == [code for code in expected if code != QUERY]


def test_a_server_that_wants_a_proof_by_now_is_asked_again() -> None:
    seen: list[tuple[int, int]] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        seen.append((number, code))
        if number == 0:
            return b"hang up" if code in READS else None
        if code == LOGIN:
            return answer(stream, OK, bytes(16) + b"&P=unix\0")
        if code == AUTH:
            return answer(stream, OK)
        # As the real one: who asks before he has said who he is is hung up on.
        return b"hang up" if code == OPEN and (number, AUTH) not in seen else None

    with xrootd_script(CONTENT, hook) as (url, _, server):
        read_all(url)
        assert server.connections == 3
    assert [code for number, code in seen if number == 2][:4] == [PROTOCOL, LOGIN, AUTH, OPEN]


def test_an_open_that_came_too_early_is_repeated() -> None:
    refused: list[int] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if number == 0:
            return b"hang up" if code in READS else None
        if code == OPEN and not refused:
            refused.append(number)
            return error(stream, 3006, "user not logged in")
        return None

    with xrootd_script(CONTENT, hook) as (url, _, server):
        read_all(url)
        assert (refused, server.connections) == ([1], 2)


@pytest.mark.usefixtures("impatient")
def test_a_server_that_wants_tls_by_now_gets_no_second_login_in_plain() -> None:
    seen: list[tuple[int, int]] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        seen.append((number, code))
        if number == 0 and code in READS:
            script.flags |= TLS_THERE_AND_NOW
            return b"hang up"
        return None

    with xrootd_script(CONTENT, hook) as (url, script, server), pytest.raises(StorageError):
        # The script does no TLS, so it ends there: but what was said to it in plain was no more than before.
        read_all(url)
    assert [code for number, code in seen if number == 1] in (
        [PROTOCOL, LOGIN, OPEN, QUERY][:count] for count in range(1, 5)
    )
    assert [code for number, code in seen if number == 2][:1] == [PROTOCOL]
    assert LOGIN not in [code for number, code in seen if number >= 2]
    assert server.connections >= 3


@pytest.mark.parametrize("harm", ["none", "refused", "gone", "silent", "wrong"])
def test_a_stream_that_fails_is_survived(harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server sends each other read over the connection that is bound, and does harm to the first of them."""
    if harm == "silent":
        monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "1")
    content = random.Random(4).randbytes(1_100_000)
    bound: list[int] = []
    harmed: list[int] = []
    sent: list[int] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code == LOGIN:
            return answer(stream, OK, bytes([number] * 16))
        if code == BIND:
            assert arguments[0] == number - 1, "bound to the login before"
            bound.append(number)
            return error(stream, 3000, "no") if harm == "refused" else answer(stream, OK, bytes([7]))
        if code != READ or not payload:
            return None
        assert payload == bytes([7, 0, 0, 0, 0, 0, 0, 0])
        good = script.good(stream, code, arguments, payload)
        other = script.connections[bound[-1]]
        if harm in ("none", "refused") or harmed:
            sent.append(other.send(good))
        else:
            harmed.append(number)
            if harm == "gone":
                other.sendall(good[:100])
                other.shutdown(socket.SHUT_RDWR)
            elif harm == "wrong":
                other.sendall(answer(b"\x7f\x7f", OK, b"nobody asked"))
        return b""

    ranges = [(number * 220_000, 220_000) for number in range(5)]
    with xrootd_script(content, hook, flags=0) as (url, script, server):
        store = Store(url, access=Access(streams=2))
        for _ in range(2):
            assert store.read(ranges).contents == [content[at : at + size] for at, size in ranges]
        # After a failure both connections are made again.
        assert server.connections == (4 if harmed else 2)
    assert bool(harmed) == (harm not in ("none", "refused"))
    assert bool(sent) == (harm != "refused")


def test_answers_may_come_in_parts_of_any_size() -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    numbers = random.Random(seed)

    def in_parts(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code == READV:
            whole = script.segments(payload)
            made = b""
            while whole:
                count = numbers.randrange(40)
                made += answer(stream, OK_SO_FAR, whole[:count])
                whole = whole[count:]
            return made + answer(stream, OK)
        if code == PGREAD:
            offset, length = struct.unpack(">QI", arguments[4:])
            middle = min(offset + length, (offset + length // 2) // 4096 * 4096)
            first, rest = CONTENT[offset:middle], CONTENT[middle : offset + length]
            return pages(stream, offset, first, last=False) + pages(stream, middle, rest)
        return None

    with xrootd_script(CONTENT, in_parts) as (url, script, _):
        for _ in range(20):
            read_all(url)


def test_answers_may_come_in_another_order() -> None:
    held: list[bytes] = []

    def reordered(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code not in READS:
            return None
        held.append(script.good(stream, code, arguments, payload))
        if len(held) < 3:
            return b""
        made = b"".join(reversed(held))
        held.clear()
        return made

    content = random.Random(4).randbytes(9_000_000)
    with xrootd_script(content, reordered, flags=0) as (url, script, _):
        store = Store(url)
        assert store.read([(0, 9_000_000)]).contents == [content]


def test_waits_and_late_answers_are_waited_for() -> None:
    seen = set()

    def waits(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code in (OPEN, *READS) and (code, payload) not in seen:
            seen.add((code, payload))
            return answer(stream, WAIT, struct.pack(">I", 0) + b"a moment\0")
        if code in (OPEN, *READS):
            good = script.good(stream, code, arguments, payload)
            if code == PGREAD:
                return answer(b"\0\0", ATTENTION, struct.pack(">I", 5002) + b"hello") + good
            soon = answer(stream, WAIT_FOR_ANSWER, struct.pack(">I", 1))
            return soon + late(stream, OK, good[8:])
        return None

    with xrootd_script(CONTENT, waits) as (url, script, _):
        read_all(url)


def test_a_wait_for_ever_is_an_error_at_once() -> None:
    def wait(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        return answer(stream, WAIT, struct.pack(">I", 2**31)) if code == OPEN else None

    with xrootd_script(CONTENT, wait) as (url, _, _):
        with pytest.raises(StorageError, match="asks to wait") as raised:
            Store(url)
        assert not raised.value.retry


def test_redirects_are_followed_but_not_for_ever() -> None:
    def elsewhere(port: int, query: str = "") -> object:
        def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
            body = struct.pack(">i", port) + f"127.0.0.1{query}".encode()
            return answer(stream, REDIRECT, body) if code == OPEN else None

        return hook

    asked: list[bytes] = []

    def remember(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code == OPEN:
            asked.append(payload)
        return None

    with (
        xrootd_script(CONTENT, remember) as (_, _, good),
        xrootd_script(b"", elsewhere(good.port, "?org.key=1&b=2?token")) as (url, _, _),
    ):
        read_all(f"{url}?mine=3")
        assert asked == [b"/f?mine=3&org.key=1&b=2"]

    with xrootd_script(b"") as (url, script, server):
        script.hook = elsewhere(server.port)
        with pytest.raises(StorageError, match="too many redirects"):
            Store(url)


def test_bytes_that_change_on_their_way_are_noticed_and_read_again() -> None:
    spoiled = 0

    def spoil(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        nonlocal spoiled
        if code == PGREAD and spoiled < spoil_max:
            spoiled += 1
            offset, length = struct.unpack(">QI", arguments[4:])
            return pages(stream, offset, CONTENT[offset : offset + length], spoil=True)
        return None

    spoil_max = 1
    with xrootd_script(CONTENT, spoil) as (url, _, _):
        read_all(url)
    spoil_max = 100
    with xrootd_script(CONTENT, spoil) as (url, _, _):
        with pytest.raises(StorageError, match="checksum mismatch at offset 12288") as raised:
            read_all(url)
        assert raised.value.retry


def test_a_connection_that_breaks_is_replaced() -> None:
    def break_once(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        return b"hang up" if code in READS and number == 0 else None

    with xrootd_script(CONTENT, break_once) as (url, _, server):
        read_all(url)
        assert server.connections == 2


def test_a_redirect_back_to_a_server_where_the_file_is_still_open_is_followed() -> None:
    # Of two reads at a time one loses its connection and asks again; by then the other gives its own back with the file
    # open on it.
    both_read, is_lost = threading.Barrier(2), threading.Event()
    asks_again, is_given_back = threading.Event(), threading.Event()

    def one_is_lost(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code not in READS or is_lost.is_set():
            return None
        if both_read.wait(20) == 0:
            is_lost.set()
            return b"hang up"
        asks_again.wait(20)
        return None

    with xrootd_script(CONTENT, one_is_lost) as (_, _, good):
        body = struct.pack(">i", good.port) + b"127.0.0.1"

        def redirect(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
            if code == OPEN and is_lost.is_set():
                asks_again.set()
                is_given_back.wait(20)
            return answer(stream, REDIRECT, body) if code == OPEN else None

        with xrootd_script(b"", redirect) as (url, _, _), ThreadPoolExecutor(2) as threads:
            store = Store(url)
            reads = [threads.submit(store.read, RANGES) for _ in range(2)]
            for read in reads:
                read.add_done_callback(lambda _: is_given_back.set())
            assert [read.result(20).contents for read in reads] == [EXPECTED, EXPECTED]
        assert good.connections == 2


@pytest.mark.parametrize("at", [PROTOCOL, OPEN, PGREAD])
@pytest.mark.usefixtures("impatient")
def test_bytes_that_trickle_end_at_the_deadline(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")

    whole: list[int] = []

    def trickle(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if code != at:
            return None
        for byte in script.good(stream, code, arguments, payload)[:200] + bytes(100):
            connections[number].sendall(bytes([byte]))
            time.sleep(0.1)
        whole.append(number)
        return b""

    with xrootd_script(CONTENT, trickle) as (url, script, _):
        connections = script.connections
        with pytest.raises(StorageError, match="did not answer in time"):
            Store(url).read([(4000, 300)])
        assert not whole, "the error came with the last byte, not with the deadline"


SECRET = "very.secret"


def test_no_error_tells_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    def echo(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        return error(stream, 3010, f"no {payload.decode()} with eyJ{SECRET}") if code == OPEN else None

    with xrootd_script(CONTENT, echo) as (url, _, _):
        for wrong in (f"{url}?authz=Bearer%20{SECRET}", f"{url.replace('//', f'//me:{SECRET}@', 1)}"):
            with pytest.raises(StorageError) as raised:
                Store(wrong)
            assert SECRET not in f"{raised.value} {raised.value!r} {raised.value.path}"


WRONG = {
    "nothing": lambda stream, good: b"hang up",
    "no bytes": lambda stream, good: answer(stream, OK),
    "more bytes": lambda stream, good: answer(stream, OK, good[8:] + b"x" * 100_000),
    "a huge answer": lambda stream, good: stream + struct.pack(">HI", OK, 2**32 - 1) + bytes(100_000),
    "a huge error": lambda stream, good: stream + struct.pack(">HI", 4003, 2**32 - 1) + bytes(100_000),
    "another stream": lambda stream, good: answer(b"\x7f\x7f", OK, good[8:]),
    "an unknown kind": lambda stream, good: answer(stream, 4999, good[8:]),
    "other bytes": lambda stream, good: answer(stream, OK, b"HANDxxxxyyyyzzzz" + good[24:]),
    "half of it": lambda stream, good: good[: len(good) // 2] + b"",
    "attentions only": lambda stream, good: answer(b"\0\0", ATTENTION, b"\0\0\0\0") * 2000,
    "a late nothing": lambda stream, good: answer(b"\0\0", ATTENTION, struct.pack(">I", 5008)),
    "a late lie": lambda stream, good: answer(b"\0\0", ATTENTION, struct.pack(">IIHHI", 5008, 0, 1, 0, 2**31)),
    "a redirect to nowhere": lambda stream, good: answer(stream, REDIRECT, b"\0"),
    "an error without a number": lambda stream, good: answer(stream, 4003, b"\0"),
    "pages that lie": lambda stream, good: good[:8] + bytes(24) + bytes(10_000),
    "more pages": lambda stream, good: pages(stream, 4000, bytes(20_000)),
    "pages elsewhere": lambda stream, good: pages(stream, 8000, bytes(9000)),
    "pages of nothing": lambda stream, good: pages(stream, 4000, b""),
    "zeros": lambda stream, good: bytes(100_000),
    "noise": lambda stream, good: random.Random(1).randbytes(100_000),
}


@pytest.mark.parametrize("at", ["login", "open", "read"])
@pytest.mark.parametrize("name", list(WRONG))
@pytest.mark.usefixtures("impatient")
def test_wrong_answers_are_errors(name: str, at: str) -> None:
    codes = {"login": (PROTOCOL, LOGIN), "open": (OPEN,), "read": READS}[at]

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        good = script.good(stream, code, arguments, payload)
        return WRONG[name](stream, good) if code in codes else None

    with xrootd_script(CONTENT, hook) as (url, script, _):
        # An answer that never ends is ended by the timeout of all tests.
        if at == "read":
            with pytest.raises((StorageError, BadFileError)):
                read_all(url)
        else:
            # What follows the answer to a login or an open is sometimes of no importance.
            with suppress(StorageError, BadFileError):
                read_all(url)


def test_changed_answers_never_panic_or_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.1")
    seed = random.randrange(2**32)
    print("seed", seed)
    numbers = random.Random(seed)

    def flip(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        good = bytearray(script.good(stream, code, arguments, payload))
        if numbers.random() < 0.3:
            for _ in range(numbers.randrange(1, 4)):
                # Not in the status: 4005 is a wait, which is waited for.
                at = numbers.randrange(4, min(len(good), 60)) if len(good) > 4 else 0
                good[at] = numbers.randrange(256)
        return bytes(good)

    with xrootd_script(CONTENT, flip) as (url, script, _):
        for _ in range(150):
            try:
                Store(url).read([(4000, 9000), (0, 10)])
            except (StorageError, BadFileError, FileNotFoundError):
                continue


def test_settings_that_lie_are_survived() -> None:
    for limits in (b"0\n0\n", b"-1\nx\n", b"1\n1\n", b"99999999999\n99999999999\n", b"", b"\xff\xfe", b"1\n" * 50_000):

        def hook(
            number: int, stream: bytes, code: int, arguments: bytes, payload: bytes, limits: bytes = limits
        ) -> bytes | None:
            return answer(stream, OK, limits) if code == QUERY else None

        with xrootd_script(CONTENT, hook) as (url, _, _):
            read_all(url)


def test_a_size_that_lies_takes_no_memory() -> None:
    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        return answer(stream, OK, HANDLE + bytes(8) + b"7 %d 48 17\0" % 2**63) if code == OPEN else None

    with xrootd_script(CONTENT, hook) as (url, _, _), pytest.raises(StorageError, match="not enough memory"):
        Store(url).read([(0, 2**62)])
