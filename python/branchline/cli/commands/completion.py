"""`branchline completion`: scripts that let a shell complete command lines, written from the commands' parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from branchline.cli.command_list import GROUPS, command, names
from branchline.cli.parameters import Argument
from branchline.cli.printing import print_block_out

_BASH = """\
_branchline() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" name="${{COMP_WORDS[1]}}"
    local words="" values="" files=yes
    case "$name" in
        {groups}) if [ "$COMP_CWORD" -gt 2 ]; then name="$name ${{COMP_WORDS[2]}}"; else files=; fi ;;
    esac
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{first}"
    else
        case "$name" in
{commands}
        esac
        case "$name $previous" in
{choices}
        esac
    fi
    if [ -n "$values" ]; then
        COMPREPLY=($(compgen -W "$values" -- "$current"))
    else
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        [ "$COMP_CWORD" -gt 1 ] && [ -n "$files" ] && [[ "$current" != -* ]] && COMPREPLY+=($(compgen -f -- "$current"))
    fi
}}
complete -o filenames -F _branchline branchline
"""
_ZSH = "autoload -U +X bashcompinit && bashcompinit\n"


def completion(
    shell: Annotated[Literal["bash", "zsh", "fish"], Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Prints a script that lets a shell complete commands, options and their values.

    Examples:
        Complete in bash, from now on in every new shell:
            branchline completion bash >> ~/.bashrc
        In fish:
            branchline completion fish > ~/.config/fish/completions/branchline.fish

    """
    print_block_out({"bash": _bash, "zsh": lambda: _ZSH + _bash(), "fish": _fish}[shell]().rstrip())


def _first_words() -> list[str]:
    return list(dict.fromkeys(name.partition(" ")[0] for name in names()))


def _options(name: str) -> list[str]:
    return [flag for one in command(name).parameters for flag in one.flags] + ["--help"]


def _bash() -> str:
    commands = [f'            "{name}") words="{" ".join(_options(name))}" ;;' for name in names()]
    commands += [f'            "{group}") words="{" ".join(_second_words(group))}" ;;' for group in GROUPS]
    choices = [
        f'            {"|".join(_quoted(f"{name} {flag}") for flag in one.flags)}) values="{" ".join(one.choices)}" ;;'
        for name in names()
        for one in command(name).parameters
        if one.flags and one.choices
    ]
    return _BASH.format(
        groups="|".join(GROUPS),
        first=" ".join([*_first_words(), "--help", "--version"]),
        commands="\n".join(commands),
        choices="\n".join(choices),
    )


def _quoted(text: str) -> str:
    return f'"{text}"'


def _second_words(group: str) -> list[str]:
    return [name.partition(" ")[2] for name in names() if name.startswith(f"{group} ")]


def _fish() -> str:
    return "\n".join(_fish_lines())


def _fish_lines() -> Iterator[str]:
    for name in names():
        first, _, second = name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if second:
            others = " ".join(_second_words(first))
            chosen = f"{seen}; and __fish_seen_subcommand_from {second}"
            pending = f"{seen}; and not __fish_seen_subcommand_from {others}"
            yield f"complete -c branchline -n '{pending}' -a {second} -d {_fish_text(command(name).summary)}"
        else:
            chosen = seen
            yield f"complete -c branchline -n __fish_use_subcommand -a {name} -d {_fish_text(command(name).summary)}"
        for one in command(name).parameters:
            if one.flags:
                flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in one.flags)
                values = f" -x -a '{' '.join(one.choices)}'" if one.choices else "" if one.kind == "flag" else " -r"
                yield f"complete -c branchline -n '{chosen}' {flags}{values} -d {_fish_text(one.help)}"
    for group, about in GROUPS.items():
        yield f"complete -c branchline -n __fish_use_subcommand -a {group} -d {_fish_text(about)}"


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
