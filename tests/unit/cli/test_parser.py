"""Command lines: what each word means, what is refused and how, help, the reference, and completion by shells."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import run_command

from branchline.cli.command_list import command, names
from branchline.cli.parameters import filled
from branchline.cli.parser import UsageError, parse
from branchline.cli.reference import CommandHelp, reference
from branchline.reading.access import EXPERIMENTS, READING_OPTIONS, Access

SEED = 20261122
LINES = 40


def given(line: str) -> dict[str, Any]:
    """What `merge` is called with, its option groups taken apart."""
    words = line.split()
    found = filled(command("merge").members, parse(command("merge"), words))
    return flattened(found)


def flattened(values: dict[str, Any]) -> dict[str, Any]:
    """The values of parameters, those in option groups too."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= flattened(value._asdict()) if hasattr(value, "_asdict") else {name: value}
    return flat


def test_every_option_of_a_merge_arrives_wherever_it_stands() -> None:
    found = given(
        "a b -o c.root --order=branch --codec zstd:5 c --cluster-events 7 --force --gap 1MB --trace t -- -d.root"
    )
    assert found["inputs"] == ["a", "b", "c", "-d.root"]
    assert (found["order"], found["codec"], found["cluster_events"], found["force"]) == ("branch", "zstd:5", 7, True)
    assert (found["output"], found["trace_to"]) == (Path("c.root"), Path("t"))
    assert found["chosen"] == Access(gap="1MB")
    assert (found["verify"], found["memory"], found["max_size"]) == (False, "1 GiB", None)


def test_words_mean_the_same_in_any_order() -> None:
    pieces = [["a"], ["-o", "out"], ["--codec=lz4:4"], ["--no-sync"], ["--memory", "2 GB"], ["--streams", "3"]]
    draw = random.Random(SEED)
    expected = None
    for _ in range(LINES):
        draw.shuffle(pieces)
        words = [word for piece in pieces for word in piece]
        found = filled(command("merge").members, parse(command("merge"), words))
        expected = expected or found
        assert found == expected, f"seed {SEED}: {words}"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "required"), ("a", "--output"), ("a -o", "expected one argument"),
        ("a -o b --order size", "entry, branch"),
        ("a -o b --cluster-events 0", "less than 1"), ("a -o b --cluster-events x", "not an integer"),
        ("a -o b --forc", "did you mean --force?"), ("a -o b --force=yes", "--force"), ("-o b", "IN..."),
        ("a -o b --memor 1", "did you mean --memory?"),
    ],
)  # fmt: skip
def test_a_mistake_is_explained_and_nothing_runs(line: str, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("?", r"\?")):
        given(line)
    done = run_command(["merge", *line.split()])
    assert done.exit_code == 2
    assert message in done.output
    assert "branchline merge --help" in done.output


def test_an_empty_path_is_refused() -> None:
    for words in (["", "-o", "b"], ["a", "-o", ""]):
        assert run_command(["merge", *words]).exit_code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["merg"], "did you mean merge?"), (["trace", "shw"], "did you mean trace show?"),
        (["nothing-like-it"], "unknown command 'nothing-like-it'"), (["--debug"], "unknown command"),
    ],
)  # fmt: skip
def test_an_unknown_command_is_refused_with_the_nearest(words: list[str], message: str) -> None:
    done = run_command(words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.output


def test_no_command_at_all_prints_the_help_and_is_wrong_usage() -> None:
    for words, text in (([], "Make files:"), (["trace"], "trace replay")):
        done = run_command(words)
        assert (done.exit_code, done.stdout) == (2, "")
        assert text in done.output


def test_help_is_a_result() -> None:
    for words in (["-h"], ["--help"], ["trace", "-h"], ["trace", "show", "--help"], ["skim", "-h"]):
        done = run_command(words)
        assert done.exit_code == 0
        assert done.stdout == done.output != ""


def test_the_version_is_printed_by_its_command_and_its_option() -> None:
    assert run_command(["--version"]) == run_command(["version"])


def test_words_behind_a_traced_program_are_its_own() -> None:
    for words in (["-o", "t", "--", "ls", "-o", "--debug"], ["-o", "t", "ls", "-o", "--debug"]):
        values = parse(command("trace run"), words)
        assert values["command"] == ["ls", "-o", "--debug"]
        assert values["output"] == Path("t")
    with pytest.raises(UsageError, match="COMMAND"):
        parse(command("trace run"), ["-o", "t"])


def test_the_reference_has_everything_that_the_help_shows() -> None:
    found = reference()
    assert [one.name for one in found] == names()
    for one in found:
        shown = " ".join(run_command([*one.name.split(), "--help"]).stdout.split())
        assert one.summary in shown
        for parameter in (*one.arguments, *one.options):
            assert parameter.help.endswith("."), (one.name, parameter)
            for text in (parameter.metavar, *parameter.flags, parameter.group):
                assert text in shown, (one.name, parameter)
            assert parameter.default is None or parameter.default in shown
        for example in one.examples:
            assert f"{example.line} ".startswith(f"branchline {one.name} ")
    assert json.loads(json.dumps([dataclasses.asdict(one) for one in found]))


def reading_commands() -> list[CommandHelp]:
    found = {one.name: [option for option in one.options if option.group == READING_OPTIONS] for one in reference()}
    return [one for one in reference() if any("--access" in option.flags for option in found[one.name])]


def test_options_of_reading_are_the_same_for_every_command() -> None:
    reading = "run test show verify merge skim slim reorder recompress convert"
    others = ("trace replay", "advise", "forecast", "calibrate")
    assert {one.name for one in reading_commands()} == {*reading.split(), *others}
    groups = [{option for option in one.options if option.group == READING_OPTIONS} for one in reading_commands()]
    assert all(group == groups[0] for group in groups)
    experiments = set(EXPERIMENTS.values()) - {"mode"}
    # Besides the fields of Access: --experiment and --trace.
    assert len(groups[0]) == len(dataclasses.fields(Access)) - len(experiments) + 2


def test_all_commands_that_merge_share_one_group_of_options() -> None:
    groups = {name: command(name).members[0] for name in ("merge", "skim", "slim", "reorder", "recompress")}
    assert {group.name for group in groups.values()} == {"merging"}
    assert all(group == groups["merge"] for group in groups.values())


def completed(script: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    line = " ".join(f"'{word}'" for word in ("branchline", *words))
    state = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}"
    code = f'source {script}; {state}; COMP_TYPE=9; _shtab_branchline; printf "%s\\n" "${{COMPREPLY[@]}}"'
    return subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(run_command(["completion", "bash"]).stdout)
    assert completed(script, "me") == ["merge"]
    assert completed(script, "trace", "re") == ["recover", "replay"]
    assert completed(script, "merge", "--ord") == ["--order"]
    assert completed(script, "merge", "--order", "") == ["entry", "branch", "offset"]
    assert completed(script, "trace", "show", "--ht") == ["--html"]
    assert completed(script, "forecast", "--acc") == ["--access"]
    (tmp_path / "few.root").touch()
    assert completed(script, "show", f"{tmp_path}/fe") == [f"{tmp_path}/few.root"]


def test_other_shells_have_a_script_too() -> None:
    assert run_command(["completion", "zsh"]).stdout.startswith("#compdef branchline")
    assert "--order" in run_command(["completion", "zsh"]).stdout
    lines = run_command(["completion", "fish"]).stdout.splitlines()
    assert any("-l order" in line for line in lines)
    assert run_command(["completion", "csh"]).exit_code == 2


def test_the_installed_command_ends_with_the_code_of_its_work(tmp_path: Path) -> None:
    environment = {**os.environ, "COLUMNS": "60"}
    for words, code in ((["--help"], 0), ([], 2), (["show", str(tmp_path / "none.root")], 1)):
        run = [sys.executable, "-m", "branchline", *words]
        done = subprocess.run(run, capture_output=True, text=True, env=environment, check=False)
        assert done.returncode == code, done.stderr
        assert max(len(line) for line in done.stdout.splitlines() or [""]) <= 60
