"""No command writes a character that a terminal obeys, whatever names files, objects and messages have."""

from __future__ import annotations

import io
import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.branchline_command import run_branchline

import branchline
from branchline.base.texts import escaped, json_text, print_block, print_line, printable

ESCAPES = "\x1b[2J\x1b]0;pwn\x07\x1b[31mRED\x9b31m"
MARKUP = "[link=http://x]y[/link] [red]z[/red] :smile: <img src=x onerror=alert(1)>"
NAMES = [f"a{ESCAPES}", f"b{MARKUP}", "c\nbranchline: forged", "d\u202etxt\u2066\u2069", "f\r\x08\x08", "g\x7f\x85"]
#: A line feed ends lines; all else that moves the cursor, colours, or reorders letters must not come.
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


HOSTILE = f"x{ESCAPES}\u202e\nbranchline: forged"
#: Wagons with such a name, results with such keys, and an error whose traceback has such a text on lines of its own.
NAMED = """
import hist

class W:
    name = {name!r}

    def process(self, events):
        return {{{name!r}: hist.Hist.new.Reg(2, 0, 1, name="x", label={name!r}).Double(), "n": len(events)}}

class Fails:
    name = "fails " + {name!r}

    def process(self, events):
        exec(compile("raise ValueError(" + repr({name!r}) + ")", {name!r}, "exec"))
"""
STUDY = """
name = {name}
question = {name}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    columns = {name: np.arange(10.0) for name in NAMES}
    with warnings.catch_warnings(action="ignore"), branchline.recreate(folder / "ttree.root") as file:
        file.mktree(f"T{ESCAPES}", columns)
    # Branchline writes no RNTuple with such names, as ROOT cannot read it.
    with uproot.recreate(folder / "rntuple.root") as file:
        file.mkrntuple(f"T{ESCAPES}", columns)
    (folder / f"name\u202e{ESCAPES.replace('/', '')}.root").write_bytes((folder / "ttree.root").read_bytes())
    message = f"{ESCAPES}\nbranchline: forged\u202e"
    wagon = f"class W:\n    name = 'w'\n\n    def process(self, events):\n        raise ValueError({message!r})\n"
    (folder / "wagons.py").write_text(wagon)
    (folder / "named.py").write_text(NAMED.format(name=HOSTILE))
    (folder / "study.toml").write_text(STUDY.format(name=json.dumps(HOSTILE)))
    ended = run_branchline(folder, ["run", "named.py", "ttree.root", "-o", "out", "--pictures", "none", "-j", "1"])
    assert ended.returncode == 3, ended.stderr
    return folder


COMMANDS = {
    f"{command} {kind}": [word.replace("FILE", f"{kind}.root") for word in words]
    for kind in ("ttree", "rntuple")
    for command, words in {
        "show": ["show", "FILE"],
        "show a name": ["show", f"FILE:{HOSTILE}"],
        "show filtered": ["show", "FILE", "--filter", HOSTILE],
        "inspect": ["inspect", "FILE"],
        "inspect json": ["inspect", "FILE", "--json"],
        "verify": ["verify", "ttree.root", "FILE"],
        "convert": ["convert", "FILE", "-o", "converted.root"],
        "skim": ["skim", "FILE", "-o", "skimmed.root", "--where", f"{HOSTILE!r} > 1"],
        "slim": ["slim", "FILE", "-o", "slimmed.root", "--keep", HOSTILE],
        "merge": ["merge", "FILE", HOSTILE, "-o", "merged.root"],
        "run": ["run", "wagons.py", "FILE", "-o", f"out-{kind}", "--pictures", "none"],
        "test": ["test", "wagons.py", "FILE"],
        "status": ["status", HOSTILE],
        "resume": ["resume", HOSTILE],
        "unknown": [HOSTILE, "FILE"],
        "forecast": ["forecast", "FILE"],
        "locate": ["locate", "FILE"],
        "locate a name": ["locate", HOSTILE],
        "trace": ["trace", "run", "-o", f"trace-{kind}", "--", sys.executable, "-c", f"open('{kind}.root').read()"],
        "debug": ["run", "named.py", "FILE", "-o", f"debug-{kind}", "--pictures", "none", "--debug"],
        "unknown option": ["show", "FILE", f"--{HOSTILE}"],
    }.items()
}


COMMANDS |= {
    "run again": ["run", "named.py", "ttree.root", "-o", "out", "--pictures", "none"],
    "test of names": ["test", "named.py", "ttree.root"],
    "forecast of a job": ["forecast", "out"],
    "forecast of a name": ["forecast", HOSTILE],
    "advise": ["advise", "out"],
    "status of a job": ["status", "out"],
    "ledger": ["ledger", "out"],
    "plot": ["plot", "out"],
    "plot of a name": ["plot", HOSTILE],
    "rerun": ["rerun", "out", "0"],
    "rerun of a name": ["rerun", HOSTILE, "0"],
    "reproduce": ["reproduce", "out"],
    "reproduce of a name": ["reproduce", HOSTILE],
    "cancel": ["cancel", "out"],
    "cancel of a name": ["cancel", HOSTILE],
    "trace of a name": ["trace", "show", HOSTILE],
    "trace of a program": ["trace", "run", "-o", "trace-name", "--", HOSTILE],
    "compare": ["compare", HOSTILE, HOSTILE, "--budget", "1"],
    "compare commands": ["compare", "--command", HOSTILE, "--command", "true"],
    "study": ["study", "run", "study.toml"],
    "study of a name": ["study", "show", HOSTILE],
    "report": ["report", "send", HOSTILE],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_what_a_terminal_obeys(folder: Path, name: str) -> None:
    ended = run_branchline(folder, COMMANDS[name])
    for text in (ended.stdout, ended.stderr):
        assert not OBEYED.search(text), (name, text)
        assert not any(line.startswith("branchline: forged") for line in text.splitlines()), (name, text)


def test_a_file_with_a_hostile_name_is_shown(folder: Path) -> None:
    [hostile] = folder.glob("name\u202e*.root")
    for words in (["show", hostile.name], ["inspect", hostile.name], ["verify", hostile.name, "ttree.root"]):
        ended = run_branchline(folder, words)
        assert not OBEYED.search(ended.stdout + ended.stderr), words


@pytest.mark.parametrize("character", [chr(one) for one in (*range(32), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F)])
def test_control_characters_are_escaped(character: str) -> None:
    assert escaped(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"


@pytest.mark.parametrize("number", [*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x2028, 0x2029, 0xD800, 0xDFFF])
def test_marks_and_surrogates_are_escaped(number: int) -> None:
    assert escaped(f"a{chr(number)}b") == f"a\\u{number:04x}b"
    assert chr(number) not in printable(f"a{chr(number)}b") or number in (0x2028, 0x2029)


@pytest.mark.parametrize(
    "text", ["", "plain", "caf\u00e9", "\u05d0\u05d1", "\u03b7\u2032", "a b", "\\x1b", "\U0001f600"]
)
def test_other_texts_stay(text: str) -> None:
    assert escaped(text) == text


def test_lines_stay_lines_and_blocks_blocks() -> None:
    stream = io.StringIO()
    print_line("a\nb\x1b", stream)
    print_block("c\nd\x1b", stream)
    assert stream.getvalue() == "a\\nb\\x1b\nc\nd\\x1b\n"


def test_what_a_stream_cannot_encode_is_escaped() -> None:
    content = io.BytesIO()
    stream = io.TextIOWrapper(content, encoding="ascii")
    print_line("\u00e9\udc80", stream)
    assert content.getvalue() == b"\\xe9\\udc80\n"


def test_json_has_no_control_characters() -> None:
    assert json_text({"a": "\x7f\x1b\u202e"}) == '{\n "a": "\\u007f\\u001b\\u202e"\n}'
