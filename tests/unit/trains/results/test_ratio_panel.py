"""The panel below a picture of samples: data over simulation, with a mark where that is outside of the panel."""

from __future__ import annotations

from typing import Any

import hist
import numpy as np
import pytest

from branchline.records.sensors.record_parts import SampleRecord
from branchline.trains.results.plot_options import PlotOptions
from branchline.trains.results.stack_pictures import stack_figure
from branchline.trains.results.stacks import Contents, SampleHistogram, SampleStack


def panel(data: list[float], simulated: list[float]) -> Any:
    """The panel of a picture with these bins."""
    samples = [
        SampleHistogram(SampleRecord(name, kind=kind), {"nominal": Contents(np.array(bins), np.abs(np.array(bins)))})
        for name, kind, bins in (("data", "data", data), ("top", "background", simulated))
    ]
    stack = SampleStack("w", ("n",), (hist.axis.Regular(len(data), 0, len(data)),), samples, has_flow=False)
    return stack_figure(stack, PlotOptions()).axes[1]


def marks(axes: Any, side: str) -> list[float]:
    """Where triangles stand along the axis; each inside of the panel, pointing out of it."""
    (found,) = (line for line in axes.lines if line.get_gid() == side)
    assert found.get_marker() == {"above": "^", "below": "v"}[side]
    pixels = found.get_transform().transform(np.column_stack(found.get_data()))
    heights = axes.transAxes.inverted().transform(pixels)[:, 1] if len(pixels) else np.zeros(0)
    assert np.all((heights > 0.9) & (heights < 1) if side == "above" else (heights > 0) & (heights < 0.1))
    return [float(one) for one in found.get_xdata()]


def test_points_above_and_below_the_panel_have_a_triangle_at_its_edge() -> None:
    axes = panel([100.0, 900.0, 110.0, 50.0], [100.0, 100.0, 100.0, 10.0])
    low, high = axes.get_ylim()
    assert (low, high) == (0, 2)
    assert (marks(axes, "above"), marks(axes, "below")) == ([1.5, 3.5], [])
    axes = panel([100.0, -50.0], [100.0, 100.0])
    assert (marks(axes, "above"), marks(axes, "below")) == ([], [1.5])


@pytest.mark.parametrize("simulated", [[100.0, 100.0], [100.0, 0.0]])
def test_points_in_the_panel_and_bins_without_simulation_have_no_triangle(simulated: list[float]) -> None:
    axes = panel([100.0, 120.0], simulated)
    assert (marks(axes, "above"), marks(axes, "below")) == ([], [])
