"""Wagons and datasets as users register them, and the checks of their fields."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from branchline.base.limits import DATASET_LINES_MAX, DESCRIPTION_LENGTH_MAX, LOCATION_LENGTH_MAX, REQUIRED_WAGONS_MAX
from branchline.errors import OptionError
from branchline.trains.wagons.parameters import Value

# Names become parts of URLs, paths and Python modules.
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def checked_name(what: str, name: str) -> str:
    """Return ``name`` if it is valid: a letter, then up to 63 letters, digits, ``_`` and ``-``.

    Raises OptionError for an invalid name. ``what`` describes the name in the error message.
    """
    if not _NAME.fullmatch(name):
        hint = "use a letter, then up to 63 letters, digits, _ and -"
        raise OptionError(f"{what} cannot be {name!r:.80}", hint=hint)
    return name


@dataclass(frozen=True)
class WagonSource:
    """The file that defines a wagon.

    ``sha256`` identifies the content of the file on the server, and ``path`` is the file's name. A file from git also
    has the URL of the repository and the commit (40 hexadecimal digits).
    """

    sha256: str
    path: str = "wagons.py"
    repository: str = ""
    commit: str = ""

    def check(self) -> None:
        """Raise OptionError if the hash or the commit is invalid."""
        if not _SHA256.fullmatch(self.sha256):
            raise OptionError(f"{self.sha256!r:.80} is not the SHA-256 of a file")
        if bool(self.repository) != bool(self.commit) or (self.commit and not _COMMIT.fullmatch(self.commit)):
            raise OptionError("a source in git needs a repository and a commit of 40 hexadecimal digits")
        _check_texts("path", [self.path, self.repository], LOCATION_LENGTH_MAX)


@dataclass(frozen=True)
class WagonEntry:
    """A registered wagon.

    ``wagon_class`` is the name of the wagon's class in ``source``. ``values`` are the parameters that differ from their
    defaults. ``requires`` lists the addresses of the wagons whose outputs this wagon uses.

    A variant has only its own ``values``. Its source, class and requirements are those of the base wagon, whose address
    is ``variant_of``.
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
        """The unique name ``owner/name``."""
        return f"{self.owner}/{self.name}"

    def check(self) -> None:
        """Raise OptionError if a field is invalid. Does not check references to other entries."""
        checked_name("the owner of a wagon", self.owner)
        checked_name("the name of a wagon", self.name)
        if self.group:
            checked_name("a group", self.group)
        _check_texts("description", [self.description], DESCRIPTION_LENGTH_MAX)
        if len(self.requires) > REQUIRED_WAGONS_MAX or len(set(self.requires)) < len(self.requires):
            raise OptionError(f"a wagon can require up to {REQUIRED_WAGONS_MAX} other wagons, each only once")
        if self.variant_of and (self.source is not None or self.wagon_class or self.requires):
            what = f"{self.address} is a variant and cannot have its own source, class or requirements"
            raise OptionError(what, hint="give only values")
        if self.variant_of == self.address:
            raise OptionError(f"{self.address} cannot be a variant of itself")
        if not self.variant_of:
            if self.source is None or not self.wagon_class:
                raise OptionError(f"{self.address} has no source", hint="upload a file, or name a commit and a path")
            self.source.check()


@dataclass(frozen=True)
class MergeGroup:
    """Files of a dataset that get a merged output of their own, for example the files of one run period."""

    name: str
    files: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class DatasetEntry:
    """A registered dataset.

    - ``files``: files, patterns, folders and lists of files, as on the command line.
    - ``short``: the files on which trials of wagons run; if empty, trials run on a sample of ``files``.
    - ``companions``: additional files next to each file, such as friend trees.
    - ``runs``: description of the dataset's run periods or samples.
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
        """The unique name ``owner/name``."""
        return f"{self.owner}/{self.name}"

    def check(self) -> None:
        """Raise OptionError if a field is invalid."""
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
            raise OptionError(f"two merge groups of {self.address} have the same name")
        if len(lines) > DATASET_LINES_MAX:
            what = f"{self.address} has {len(lines)} lines, more than {DATASET_LINES_MAX}"
            raise OptionError(what, hint="name a list of files instead")
        _check_texts("line", lines, LOCATION_LENGTH_MAX)
        # The lines become command-line arguments, so a line that begins with "-" would be parsed as an option.
        options = [one for one in lines if one.startswith("-") and one not in self.runs]
        if options:
            raise OptionError(
                f"{options[0]!r:.160} begins with a hyphen",
                hint="use an absolute path or a URL",
            )
        located = [*self.files, *self.short, *(line for one in self.merge_groups for line in one.files)]
        relative = [one for one in located if not one.startswith("/") and "://" not in one]
        if relative:
            what = f"{relative[0]!r:.160} is a relative path"
            raise OptionError(what, hint="use an absolute path or a URL")


@dataclass(frozen=True)
class Activation:
    """Whether a wagon is enabled on a dataset."""

    wagon: str
    dataset: str
    is_enabled: bool = True

    @property
    def address(self) -> str:
        """The unique name ``wagon on dataset``."""
        return f"{self.wagon} on {self.dataset}"


def _check_texts(what: str, texts: list[str], length_max: int) -> None:
    for one in texts:
        if len(one) > length_max:
            raise OptionError(f"a {what} is longer than {length_max} characters")
        if any(character < " " and character not in "\n\t" for character in one) or "\x7f" in one:
            raise OptionError(f"a {what} has control characters: {one!r:.80}")
