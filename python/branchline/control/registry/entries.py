"""Wagons and datasets as people register them, and what of them is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from branchline.base.limits import DATASET_LINES_MAX, DESCRIPTION_LENGTH_MAX, LOCATION_LENGTH_MAX, REQUIRED_WAGONS_MAX
from branchline.errors import OptionError
from branchline.trains.wagons.parameters import Value

# Names become parts of addresses, paths and modules of Python.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def checked_name(what: str, name: str) -> str:
    """The name. Raises OptionError unless it is a letter and up to 63 letters, digits, ``_`` and ``-``."""
    if not _NAME.fullmatch(name):
        hint = "a letter, then up to 63 letters, digits, _ and -"
        raise OptionError(f"{what} cannot be {name!r:.80}", hint=hint)
    return name


@dataclass(frozen=True)
class WagonSource:
    """The file that a wagon is defined in: its hash, under which the server keeps its content, and its name ``path``.
    Of a file that comes from git also the address of the repository and the commit (40 hexadecimal digits).
    """

    sha256: str
    path: str = "wagons.py"
    repository: str = ""
    commit: str = ""

    def check(self) -> None:
        """Raises OptionError for a hash or a commit that is none."""
        if not _SHA256.fullmatch(self.sha256):
            raise OptionError(f"{self.sha256!r:.80} is no SHA-256 of a file")
        if bool(self.repository) != bool(self.commit) or (self.commit and not _COMMIT.fullmatch(self.commit)):
            raise OptionError("a source in git needs a repository and a commit of 40 hexadecimal digits")
        _check_texts("path", [self.path, self.repository], LOCATION_LENGTH_MAX)


@dataclass(frozen=True)
class WagonEntry:
    """A wagon that is registered; ``owner/name`` is its address.

    ``wagon_class`` is its class in ``source``, ``values`` its parameters where they are not the default. ``requires``
    has the addresses of the wagons whose outputs it takes. A variant names in ``variant_of`` the wagon that it differs
    from in ``values`` only: source, class and requirements are those of that wagon.
    """

    owner: str
    name: str
    group: str = ""
    description: str = ""
    source: WagonSource | None = None
    wagon_class: str = ""
    values: dict[str, Value] = field(default_factory=dict)
    requires: list[str] = field(default_factory=list)
    variant_of: str = ""

    @property
    def address(self) -> str:
        """Its owner and name, by which others refer to it."""
        return f"{self.owner}/{self.name}"

    def check(self) -> None:
        """Raises OptionError for what is wrong by itself, whatever else is registered."""
        checked_name("the owner of a wagon", self.owner)
        checked_name("the name of a wagon", self.name)
        if self.group:
            checked_name("a group", self.group)
        _check_texts("description", [self.description], DESCRIPTION_LENGTH_MAX)
        if len(self.requires) > REQUIRED_WAGONS_MAX or len(set(self.requires)) < len(self.requires):
            raise OptionError(f"a wagon requires up to {REQUIRED_WAGONS_MAX} other wagons, each once")
        if self.variant_of and (self.source is not None or self.wagon_class or self.requires):
            raise OptionError("a variant has values of its own alone; the rest is that of the wagon it is a variant of")
        if self.variant_of == self.address:
            raise OptionError(f"{self.address} cannot be a variant of itself")
        if not self.variant_of:
            if self.source is None or not self.wagon_class:
                raise OptionError(f"{self.address} has no source", hint="upload a file, or name a commit and a path")
            self.source.check()


@dataclass(frozen=True)
class MergeGroup:
    """Files of a dataset whose results are merged into an output of their own, as those of a run period."""

    name: str
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset that is registered; ``owner/name`` is its address.

    ``files`` are lines as the command line takes them: files, patterns, folders, lists. ``short`` are those that wagons
    are tested on; without any a sample of ``files`` is taken. ``companions`` are files beside each file. ``runs`` says
    which periods or samples it has, in words.
    """

    owner: str
    name: str
    group: str = ""
    description: str = ""
    files: list[str] = field(default_factory=list)
    tree: str = ""
    companions: list[str] = field(default_factory=list)
    short: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    merge_groups: list[MergeGroup] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Its owner and name, by which others refer to it."""
        return f"{self.owner}/{self.name}"

    def check(self) -> None:
        """Raises OptionError for what is wrong by itself."""
        checked_name("the owner of a dataset", self.owner)
        checked_name("the name of a dataset", self.name)
        if self.group:
            checked_name("a group", self.group)
        if not self.files:
            raise OptionError(f"{self.address} has no files")
        _check_texts("description", [self.description], DESCRIPTION_LENGTH_MAX)
        lines = [*self.files, *self.companions, *self.short, *self.runs, self.tree]
        lines += [line for one in self.merge_groups for line in one.files]
        for one in self.merge_groups:
            checked_name("a merge group", one.name)
        if len({one.name for one in self.merge_groups}) < len(self.merge_groups):
            raise OptionError(f"two merge groups of {self.address} have one name")
        if len(lines) > DATASET_LINES_MAX:
            what = f"{self.address} has {len(lines)} lines, more than {DATASET_LINES_MAX}"
            raise OptionError(what, hint="name a list of files instead")
        _check_texts("line", lines, LOCATION_LENGTH_MAX)
        # They become words of a command, where they would be options.
        options = [one for one in lines if one.startswith("-") and one not in self.runs]
        if options:
            raise OptionError(
                f"{options[0]!r:.160} begins with a hyphen",
                hint="name files from the root of the file system, or by a URL",
            )
        located = [*self.files, *self.short, *(line for one in self.merge_groups for line in one.files)]
        relative = [one for one in located if not one.startswith("/") and "://" not in one]
        if relative:
            what = f"{relative[0]!r:.160} is a relative path"
            raise OptionError(what, hint="name files from the root of the file system, or by a URL")


@dataclass(frozen=True)
class Activation:
    """Whether a wagon runs over a dataset."""

    wagon: str
    dataset: str
    is_enabled: bool = True

    @property
    def address(self) -> str:
        """The wagon and the dataset."""
        return f"{self.wagon} on {self.dataset}"


def _check_texts(what: str, texts: list[str], length_max: int) -> None:
    for one in texts:
        if len(one) > length_max:
            raise OptionError(f"a {what} is longer than {length_max} characters")
        if any(character < " " and character not in "\n\t" for character in one) or "\x7f" in one:
            raise OptionError(f"a {what} has control characters: {one!r:.80}")
