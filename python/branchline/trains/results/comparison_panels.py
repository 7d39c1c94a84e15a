"""Panels below a figure that compare data with simulation: the ratio, the pull, or the difference."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
from matplotlib.axes import Axes

from branchline.base.palette import BLUE
from branchline.trains.results.stacks import Contents


class _Points(TypedDict):
    fmt: str
    color: str
    linewidth: float
    zorder: float


#: How uncertainty bands and data points are drawn.
BAND: dict[Any, Any] = {"facecolor": "none", "edgecolor": "0.35", "hatch": "////", "linewidth": 0}
POINTS: _Points = {"fmt": "o", "color": "black", "linewidth": 1.4, "zorder": 4}
# The ratio axis shows at most 1 plus or minus this value, and less if all points are closer to 1. Pulls are shown up
# to the second value, and at least up to the first one.
_RATIO_MAX = 1.0
_PULL_MIN, _PULL_MAX = 3.2, 6.0
# Markers for points outside the panel, by side: the symbol, and its height as a fraction of the panel.
_OUTSIDE: dict[str, tuple[str, float]] = {"above": ("^", 0.93), "below": ("v", 0.07)}


def draw_panel(
    axes: Axes,
    kind: str,
    edges: np.ndarray,
    data: Contents,
    errors: tuple[np.ndarray, np.ndarray],
    nominal: np.ndarray,
    band: tuple[np.ndarray, np.ndarray],
) -> None:
    """Draw a panel. ``errors`` are those of data, and ``band`` that of the simulation, below and above."""
    draw = {"ratio": _draw_ratio, "pull": _draw_pull, "difference": _draw_difference}[kind]
    centre, reach, values, label = draw(axes, edges, data, errors, nominal, band)
    axes.set_ylim(centre - reach, centre + reach)
    axes.set_ylabel(label, fontsize="small", loc="center")
    # An empty bin has no direction in which it is outside.
    for side, is_there in (("above", values > centre + reach), ("below", values < centre - reach)):
        marker, height = _OUTSIDE[side]
        chosen = is_there & (data.values != 0)
        places = np.full(np.count_nonzero(chosen), height)
        centres, across = bin_centres(edges)[0][chosen], axes.get_xaxis_transform()
        axes.plot(centres, places, marker, color="black", markersize=8, transform=across, gid=side)


_Drawn = tuple[float, float, np.ndarray, str]
_Sides = tuple[np.ndarray, np.ndarray]


def _draw_ratio(
    axes: Axes, edges: np.ndarray, data: Contents, errors: _Sides, nominal: np.ndarray, band: _Sides
) -> _Drawn:
    """Draw the ratio of data to simulation. Bins without simulation have no ratio; their band has no height."""
    divisor = np.where(nominal > 0, nominal, np.nan)
    values = data.values / divisor
    low, high = np.nan_to_num(1 - band[0] / divisor, nan=1.0), np.nan_to_num(1 + band[1] / divisor, nan=1.0)
    axes.stairs(high, edges, baseline=low, fill=True, **BAND)
    axes.axhline(1, color="0.4", linewidth=1)
    centres, across = bin_centres(edges)
    axes.errorbar(centres, values, np.stack(errors) / divisor, across, **POINTS)
    filled = np.where(data.values != 0, divisor, np.nan)
    drawn = [values - errors[0] / filled, values + errors[1] / filled, low, high]
    reach = _largest(np.concatenate(drawn) - 1)
    return 1.0, min(_RATIO_MAX, 1.15 * reach) or 0.5, values, "Data / sim."


def _draw_pull(
    axes: Axes, edges: np.ndarray, data: Contents, errors: _Sides, nominal: np.ndarray, band: _Sides
) -> _Drawn:
    """Draw the difference of data and simulation, divided by the uncertainty of both in its direction."""
    difference = data.values - nominal
    is_above = difference > 0
    own, of_simulation = np.where(is_above, *errors), np.where(is_above, band[1], band[0])
    size = np.hypot(own, of_simulation)
    values = difference / np.where(size > 0, size, np.nan)
    axes.stairs(np.nan_to_num(values), edges, fill=True, color=BLUE)
    for height in (-2, 0, 2):
        axes.axhline(height, color="0.4", linewidth=1, linestyle="-" if height == 0 else ":")
    return 0.0, min(_PULL_MAX, max(_PULL_MIN, 1.15 * _largest(values))), values, "Pull"


def _draw_difference(
    axes: Axes, edges: np.ndarray, data: Contents, errors: _Sides, nominal: np.ndarray, band: _Sides
) -> _Drawn:
    """Draw the difference of data and simulation."""
    values = data.values - nominal
    axes.stairs(band[1], edges, baseline=-band[0], fill=True, **BAND)
    axes.axhline(0, color="0.4", linewidth=1)
    centres, across = bin_centres(edges)
    axes.errorbar(centres, values, np.stack(errors), across, **POINTS)
    reach = _largest(np.concatenate([values - errors[0], values + errors[1], *band]))
    return 0.0, 1.15 * reach or 1.0, values, "Data $-$ sim."


def bin_centres(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the centres of the bins, on a logarithmic scale if the bins are equal there, and half of their widths
    unless these are equal.
    """
    widths = np.diff(edges)
    if np.allclose(widths, widths[0], rtol=1e-6):
        return (edges[1:] + edges[:-1]) / 2, None
    if edges[0] > 0 and np.allclose(ratios := edges[1:] / edges[:-1], ratios[0], rtol=1e-6):
        return np.sqrt(edges[1:] * edges[:-1]), None
    return (edges[1:] + edges[:-1]) / 2, widths / 2


def _largest(values: np.ndarray) -> float:
    """Return the largest absolute value that is finite."""
    return float(np.max(np.abs(values), where=np.isfinite(values), initial=0))
