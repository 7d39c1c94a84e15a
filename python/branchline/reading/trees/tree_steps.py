"""Steps over many trees, with reports of the entries that they cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from branchline.errors import RecoveredFileWarning, SkippedFileWarning, UnreadableBranchWarning, warn
from branchline.reading.trees.selection import BranchField, Selected, Selection, left_out
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree_reader import ReadResult, columns_of

if TYPE_CHECKING:
    from branchline.reading.request import ReadRequest
    from branchline.reading.sources import SkippedSource, Source
    from branchline.reading.trees.handles import BranchesHandle, FileHandle, OpenFile, TreeHandle


@dataclass(frozen=True)
class Report:
    """The entries that a step covers, as in uproot: numbered within the tree, and across all files."""

    file_path: str
    tree_path: str
    tree_entry_start: int
    tree_entry_stop: int
    global_offset: int = 0
    open_file: OpenFile | None = field(default=None, repr=False, compare=False)

    @property
    def global_entry_start(self) -> int:
        """First entry, counted across all files."""
        return self.tree_entry_start + self.global_offset

    @property
    def global_entry_stop(self) -> int:
        """End of the entry range, counted across all files."""
        return self.tree_entry_stop + self.global_offset

    @property
    def start(self) -> int:
        """First entry, counted across all files."""
        return self.global_entry_start

    @property
    def stop(self) -> int:
        """End of the entry range, counted across all files."""
        return self.global_entry_stop

    @property
    def file(self) -> FileHandle:
        """The file, opened again. Raises the errors of opening."""
        if self.open_file is None:
            raise ValueError("this report cannot open its file: it has no open_file function")
        return self.open_file(self.file_path)

    @property
    def tree(self) -> TreeHandle:
        """The tree, opened again. Raises the errors of opening."""
        return self.file.tree(self.tree_path)


@dataclass(frozen=True)
class StepResult:
    """The selected fields of one chunk."""

    selection: Selection
    selected: Selected
    report: Report

    def counted_over_all(self) -> Selected:
        """Return the selected fields, with entry numbers that count across all trees."""
        entries, offset = self.selected.entries, self.report.global_offset
        if isinstance(entries, range):
            return Selected(self.selected.record, range(entries.start + offset, entries.stop + offset))
        return Selected(self.selected.record, entries + offset)


class _SkippedFiles:
    """Warns about each file that a stream skips, immediately or when reading stops early."""

    def __init__(self, stream: ChunkStream, skipped: list[SkippedSource] | None) -> None:
        self._stream = stream
        self._skipped = [] if skipped is None else skipped
        self._count = 0

    def __enter__(self) -> _SkippedFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.warn_of_new()

    def warn_of_new(self) -> None:
        """Warn about the files skipped since the last call."""
        new = self._stream.skipped[self._count :]
        self._count += len(new)
        self._skipped += new
        for one in new:
            warn(f"{one.path} was skipped: {one.error}", SkippedFileWarning)


class Steps:
    """A selection from many trees, in steps.

    ``selection`` None means all readable branches of each tree. ``open_file`` opens the files of reports. ``under`` is
    the tree or branch that provides titles and groups. Skipped files are appended to ``skipped``.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        selection: Selection | None,
        request: ReadRequest,
        open_file: OpenFile,
        under: BranchesHandle | None = None,
        skipped: list[SkippedSource] | None = None,
    ) -> None:
        self._sources = sources
        self._selection = selection
        self._request = request
        self._open_file = open_file
        self._under = under
        self._skipped = skipped
        self._all_of_chunk: tuple[list[str], Selection] = ([], Selection({}))
        self._warned: set[tuple[str, ...]] = set()

    def run(self, *, report: bool = False) -> Iterator[Any]:
        """Yield arrays, or with ``report`` pairs of arrays and a Report."""
        for step in self._steps():
            result = ReadResult(step.selection, [step.counted_over_all()], self._request, self._under)
            arrays, of_step = result.group(), step.report
            # The caller must be able to free a step's memory by releasing it: drop all other references.
            del step, result
            yield (arrays, of_step) if report else arrays
            del arrays

    def together(self) -> Any:
        """All steps concatenated."""
        selection, parts = self._selection or Selection({}), []
        for step in self._steps():
            selection = step.selection
            parts.append(step.counted_over_all())
        return ReadResult(selection, parts, self._request, self._under).group()

    def _steps(self) -> Iterator[StepResult]:
        """Yield the selected fields of each chunk with its report."""
        branches = None if self._selection is None else self._selection.paths()
        stream = ChunkStream.of(self._sources, self._request.stream(branches))
        with stream, _SkippedFiles(stream, self._skipped) as skipped:
            offset, source, entries_of_source = 0, None, 0
            for chunk in stream:
                skipped.warn_of_new()
                if chunk.source_index != source:
                    # If the tree was already open, opening it has issued this warning.
                    if chunk.recovered_count and self._sources[chunk.source_index].open_tree is None:
                        warn(recovered(chunk.path, chunk.recovered_count), RecoveredFileWarning)
                    offset += entries_of_source
                    source, entries_of_source = chunk.source_index, chunk.tree_entries
                selection = self._selection or self._all_of(chunk)
                limits = (chunk.entry_start, chunk.entry_stop)
                report = Report(chunk.path, chunk.tree_name, *limits, offset, self._open_file)
                yield StepResult(selection, selection.of(columns_of(chunk)), report)
                del chunk

    def _all_of(self, chunk: Chunk) -> Selection:
        """All branches that were read for a chunk, with one warning about the unreadable ones."""
        if chunk.branches != self._all_of_chunk[0] or not self._warned:
            selection = Selection({name: BranchField(path) for name, path in short_names(chunk).items()})
            self._all_of_chunk = (chunk.branches, selection)
            unreadable = chunk.unreadable()
            if unreadable and tuple(unreadable) not in self._warned:
                warn(left_out(chunk.tree_name, chunk.path, unreadable), UnreadableBranchWarning)
            self._warned.add(tuple(unreadable))
        return self._all_of_chunk[1]


def recovered(path: str, keys_count: int) -> str:
    """The warning about a file that was never closed."""
    return f"{path} was never closed: {keys_count} of its keys were recovered, with the data saved until then"


def short_names(chunk: Chunk) -> dict[str, str]:
    """Map names to the paths of a chunk's branches. A name is the branch's own name, or the path if own names clash."""
    own = chunk.own_names()
    counts = Counter(own)
    return {name if counts[name] == 1 else path: path for name, path in zip(own, chunk.branches, strict=True)}
