"""Does what advice says: new files beside the old ones, verified against them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from branchline.dataset import DataFile
from branchline.errors import BadFileError, OptionError
from branchline.forecast.advising import LARGER_BASKET_BYTES, ZSTD, Advice
from branchline.layout.merging import merge
from branchline.layout.verifying import verify

#: Advice whose change is written to new files.
WRITTEN = ("merge", "layout-order", "layout-baskets", "codec")


def do(advice: Advice, files: Sequence[DataFile], folder: Path) -> tuple[DataFile, ...]:
    """Writes the files that a piece of advice asks for into a folder, and verifies them; the old ones stay.

    Raises OptionError for advice that is an option and no file, or for files of one name; BadFileError if what was
    written is not the same; and what merging raises.
    """
    if advice.id not in WRITTEN:
        raise OptionError(f"the advice {advice.id} is the option {advice.change}: nothing is to be written")
    if advice.id == "merge":
        return _merged(files, folder, advice.forecast.conditions.merged_bytes)
    names = [Path(one.path).name for one in files]
    if len(set(names)) < len(names):
        raise OptionError("several files have the same name", hint="name those of one folder at a time")
    folder.mkdir(parents=True, exist_ok=True)
    write = _writer(advice)
    written = []
    for file, name in zip(files, names, strict=True):
        write(file, folder / name)
        written.append(_verified(DataFile(str(folder / name), file.tree), [file]))
    return tuple(written)


def _merged(files: Sequence[DataFile], folder: Path, max_bytes: int | None) -> tuple[DataFile, ...]:
    folder.mkdir(parents=True, exist_ok=True)
    result = merge([one.opens for one in files], folder / "merged.root", max_size=max_bytes, verify=True)
    return tuple(DataFile(str(path), files[0].tree) for path in result.paths)


def _writer(advice: Advice) -> Callable[[DataFile, Path], object]:
    if advice.id == "codec":
        return lambda file, path: merge([file.opens], path, codec=ZSTD)
    if advice.id == "layout-order":
        return lambda file, path: merge([file.opens], path, order="entry")
    # Bytes in the file were forecast; those of baskets before compression are about four times as many.
    return lambda file, path: merge([file.opens], path, basket_size=4 * LARGER_BASKET_BYTES)


def _verified(written: DataFile, inputs: Sequence[DataFile]) -> DataFile:
    found = verify(written.path, [one.opens for one in inputs])
    if not found.is_same:
        raise BadFileError(f"{written.path} is not the same as {inputs[0].path}: {'; '.join(found.differences[:3])}")
    return replace(written, size_bytes=Path(written.path).stat().st_size)
