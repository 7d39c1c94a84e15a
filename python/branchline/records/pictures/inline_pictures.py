"""Pictures of histograms in HTML, for notebooks."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from html import escape

import boost_histogram

from branchline.base.imports import left_out
from branchline.base.quantities import counted
from branchline.records.pictures.meaning import Title
from branchline.records.pictures.svg_pictures import light_picture

#: Maximum number of pictures in a cell of a notebook.
INLINE_PICTURES_MAX = 6
_WIDTH_PX = 360


def histograms_in(
    output: object, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], boost_histogram.Histogram]]:
    """Yield the histograms in an output of a wagon: the output itself, and values of dicts, lists and tuples, each with
    the keys that lead to it.
    """
    if isinstance(output, boost_histogram.Histogram):
        yield path, output
    elif isinstance(output, Mapping):
        for key, value in output.items():
            yield from histograms_in(value, (*path, str(key)))
    elif isinstance(output, list | tuple):
        for index, value in enumerate(output):
            yield from histograms_in(value, (*path, str(index)))


def pictures_html(histograms: Iterable[tuple[Title, boost_histogram.Histogram]]) -> str:
    """Return pictures of the first histograms that can be drawn, and the number of the others."""
    pictures: list[str] = []
    more = 0
    for title, histogram in histograms:
        drawn: str | None = None
        if len(pictures) < INLINE_PICTURES_MAX:
            with suppress(Exception):  # a histogram that cannot be drawn is still a result
                drawn = _svg(histogram, title)
        if drawn is None:
            more += 1
            continue
        # An image cannot contain scripts, and its identifiers are not those of other pictures.
        data = base64.b64encode(drawn.encode()).decode("ascii")
        name = escape(f"{title.wagon} {title.name}".strip(), quote=True)
        pictures.append(f'<img alt="{name}" width="{_WIDTH_PX}" src="data:image/svg+xml;base64,{data}">')
    rest = f"<div>{counted(more, 'more histogram')} in outputs</div>" if more else ""
    return f"<div>{''.join(pictures)}</div>{rest}"


def _svg(histogram: boost_histogram.Histogram, title: Title) -> str | None:
    if (light := light_picture(histogram, title)) is not None:
        return light
    if left_out("pictures are", "matplotlib", "mplhep") or 0 in histogram.axes.size:
        return None
    # Imported late: loading matplotlib takes a second, and simple histograms do not need it.
    from branchline.records.pictures.matplotlib_pictures import draw, styled

    with styled(), io.StringIO() as text:
        draw(histogram, title).savefig(text, format="svg", metadata={"Date": None})
        return text.getvalue()
