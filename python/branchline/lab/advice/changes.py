"""A change that advice asks for: another way of reading, or new files, which are written beside the old ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.errors import BadFileError, OptionError
from branchline.lab.forecast.conditions import Conditions
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import slim
from branchline.writing.merging.verify import Verification, verify

#: Changes for which new files are written, by their kind.
MERGED, ORDERED, REBASKETED, RECOMPRESSED, SLIMMED, CONVERTED, CLUSTERED = (
    "merge", "order", "baskets", "codec", "slim", "convert", "clusters",
)  # fmt: skip
WRITTEN = (MERGED, ORDERED, REBASKETED, RECOMPRESSED, SLIMMED, CONVERTED, CLUSTERED)
#: The codec of `convert`, if a change names none.
DEFAULT_CODEC = "zstd:5"
#: Another way of reading, and what is no matter of files.
ACCESS, OTHER = "access", "other"


@dataclass(frozen=True)
class AdvisedChange:
    """What is otherwise once advice is followed. ``kind`` is one of those above; ``access`` the way of reading of
    `ACCESS`; ``codec``, ``basket_size`` (before compression), ``cluster_bytes`` (compressed), ``max_bytes`` of a file,
    and ``branches`` are those of new files.
    ``conditions`` are what the model is asked, where it knows the change; ``option`` is that of a train.
    """

    kind: str = OTHER
    access: Access | None = None
    codec: str = ""
    basket_size: int = 0
    cluster_bytes: int | None = None
    max_bytes: int | None = None
    branches: tuple[str, ...] = ()
    conditions: Conditions = field(default_factory=Conditions)
    option: str = ""

    @property
    def writes(self) -> bool:
        """Whether new files are written."""
        return self.kind in WRITTEN


def write_changed(
    change: AdvisedChange, files: Sequence[DataFile], folder: Path, *, is_verified: bool
) -> tuple[DataFile, ...]:
    """Writes files as a change asks for, into a folder. ``is_verified`` compares them with the old ones.

    Raises OptionError for a change that writes nothing or for files of one name, BadFileError if what was written is
    not the same, and what writing raises.
    """
    if not change.writes:
        raise OptionError(f"the advice is the option {change.option}: nothing is to be written")
    folder.mkdir(parents=True, exist_ok=True)
    if change.kind == MERGED:
        inputs = [one.opens for one in files]
        result = merge(inputs, folder / "merged.root", max_size=change.max_bytes, verify=is_verified, sync=is_verified)
        return tuple(DataFile(str(path), files[0].tree) for path in result.paths)
    names = [Path(one.path).name for one in files]
    if len(set(names)) < len(names):
        raise OptionError("several files have the same name", hint="name those of one folder at a time")
    written = []
    for file, name in zip(files, names, strict=True):
        _write(change, file, folder / name, is_verified=is_verified)
        one = DataFile(str(folder / name), file.tree)
        written.append(replace(one, size_bytes=(folder / name).stat().st_size))
    return tuple(written)


def _write(change: AdvisedChange, file: DataFile, path: Path, *, is_verified: bool) -> None:
    inputs = [file.opens]
    if change.kind == SLIMMED:
        # What is left out is no difference here.
        slim(inputs, path, branches=list(change.branches), tree=file.tree, verify=is_verified, sync=is_verified)
        return
    if change.kind == CONVERTED:
        tree = file.opens if file.tree is None else f"{file.opens}:{file.tree}"
        convert([tree], path, to="rntuple", codec=change.codec or DEFAULT_CODEC)
    elif change.kind == RECOMPRESSED:
        merge(inputs, path, codec=change.codec, sync=is_verified)
    elif change.kind == ORDERED:
        merge(inputs, path, order="entry", sync=is_verified)
    else:
        basket_size = change.basket_size or None
        merge(inputs, path, basket_size=basket_size, cluster_bytes=change.cluster_bytes, sync=is_verified)
    if is_verified:
        found = _verified(path, file, is_converted=change.kind == CONVERTED)
        if not found.is_same:
            said = [*found.differences, *(one for tree in found.trees for one in tree.differences)]
            raise BadFileError(f"{path} is not the same as {file.path}: {'; '.join(said[:3])}")


def is_same(written: Sequence[DataFile], files: Sequence[DataFile]) -> bool:
    """Whether files that were converted, one by one, have all branches under their names, with their values."""
    pairs = zip(written, files, strict=True)
    return all(_verified(Path(one.path), file, is_converted=True).is_same for one, file in pairs)


def _verified(path: Path, file: DataFile, *, is_converted: bool) -> Verification:
    """Of a conversion the tree alone is compared: it takes no other objects."""
    return verify(str(path), [file.opens], tree=file.tree if is_converted else None)
