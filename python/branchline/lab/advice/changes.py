"""Changes that advice asks for: another way of reading, or new files, which are written next to the original files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.base.codecs import DEFAULT_CODEC
from branchline.errors import BadFileError, OptionError, UnsupportedBranchError
from branchline.lab.forecast.conditions import Conditions
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.writing.merging.convert import convert
from branchline.writing.merging.merge import merge
from branchline.writing.merging.skim import slim
from branchline.writing.merging.verify import Verification, verify

#: The kinds of changes that write new files.
MERGED, ORDERED, REBASKETED, RECOMPRESSED, SLIMMED, CONVERTED, FLATTENED, CLUSTERED = (
    "merge", "order", "baskets", "codec", "slim", "convert", "flatten", "clusters",
)  # fmt: skip
WRITTEN = (MERGED, ORDERED, REBASKETED, RECOMPRESSED, SLIMMED, CONVERTED, FLATTENED, CLUSTERED)
#: The kind of a change of access settings, and the kind of changes that affect neither access settings nor files.
ACCESS, OTHER = "access", "other"


@dataclass(frozen=True)
class AdvisedChange:
    """A change that implements advice.

    ``kind`` is one of the constants of this module, such as `MERGED`. ``access`` has the new settings of an `ACCESS`
    change. ``codec``, ``basket_size`` (before compression), ``cluster_bytes`` (compressed), ``max_bytes`` (per file)
    and ``branches`` describe the files to write. ``conditions`` are the conditions with which the model forecasts the
    gain. ``option`` is the command line option for a train.
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
        """Whether the change writes new files."""
        return self.kind in WRITTEN


def write_changed(
    change: AdvisedChange, files: Sequence[DataFile], folder: Path, *, is_verified: bool
) -> tuple[DataFile, ...]:
    """Write the files of a change into a folder. With ``is_verified``, they are compared with the original files.

    Raises OptionError for a change that writes no files and for files of the same name, BadFileError if the written
    files differ from the original ones, and the errors of writing.
    """
    if not change.writes:
        raise OptionError(f"this advice is the option {change.option}, which writes no files")
    folder.mkdir(parents=True, exist_ok=True)
    if change.kind == MERGED:
        inputs = [one.opens for one in files]
        result = merge(inputs, folder / "merged.root", max_size=change.max_bytes, verify=is_verified, sync=is_verified)
        return tuple(DataFile(str(path), files[0].tree) for path in result.paths)
    names = [Path(one.path).name for one in files]
    if len(set(names)) < len(names):
        raise OptionError("several files have the same name", hint="give the files of one folder at a time")
    written = []
    for file, name in zip(files, names, strict=True):
        _write(change, file, folder / name, is_verified=is_verified)
        one = DataFile(str(folder / name), file.tree)
        written.append(replace(one, size_bytes=(folder / name).stat().st_size))
    return tuple(written)


def _write(change: AdvisedChange, file: DataFile, path: Path, *, is_verified: bool) -> None:
    inputs = [file.opens]
    if change.kind == SLIMMED:
        # The verification does not count omitted branches as differences.
        slim(inputs, path, branches=list(change.branches), tree=file.tree, verify=is_verified, sync=is_verified)
        return
    tree = file.opens if file.tree is None else f"{file.opens}:{file.tree}"
    if change.kind == FLATTENED:
        made = convert([tree], path, to="ttree", flatten=True, branches=change.branches or None, verify=True)
        if made.without_columns:
            # Reading less is not a gain.
            names = ", ".join(made.without_columns)
            raise UnsupportedBranchError(f"members have no flat form: {names}", path=file.path)
        return
    if change.kind == CONVERTED:
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
    """Return whether converted files have all branches of the original files, with equal names and values."""
    pairs = zip(written, files, strict=True)
    return all(_verified(Path(one.path), file, is_converted=True).is_same for one, file in pairs)


def _verified(path: Path, file: DataFile, *, is_converted: bool) -> Verification:
    """Compare a written file with the original. After a conversion, only the tree is compared, since other objects are
    not copied.
    """
    return verify(str(path), [file.opens], tree=file.tree if is_converted else None)
