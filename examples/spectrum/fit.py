"""Fits a power law with Hagedorn's form to the spectrum, and draws both.

python examples/spectrum/fit.py out
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from iminuit import Minuit, cost

import branchline


def hagedorn(pt, low, scale, power):
    """Return the fraction of particles with a transverse momentum below ``pt``, of those above ``low``."""
    return 1 - (1 + (pt - low) / scale) ** -power


def fitted(spectrum):
    """Return the scale in GeV and the power of the fit, with their uncertainties."""
    edges = spectrum.axes[0].edges

    def expected(pt, total, scale, power):
        return total * hagedorn(pt, edges[0], scale, power) / hagedorn(edges[-1], edges[0], scale, power)

    fit = Minuit(cost.ExtendedBinnedNLL(spectrum.values(), edges, expected), total=spectrum.sum(), scale=1.0, power=5.0)
    fit.limits["total", "scale", "power"] = (1e-3, None)
    fit.migrad()
    if not fit.valid:
        raise RuntimeError(f"the fit did not converge: {fit.fmin}")
    return fit.values["scale"], fit.errors["scale"], fit.values["power"], fit.errors["power"]


def draw(spectrum, collisions, scale, power):
    """Draw the number of particles per collision and GeV, and the fitted function."""
    edges = spectrum.axes[0].edges
    figure, axes = plt.subplots()
    yields = spectrum.values() / np.diff(edges) / collisions
    errors = np.sqrt(spectrum.values()) / np.diff(edges) / collisions
    axes.errorbar(spectrum.axes[0].centers, yields, errors, np.diff(edges) / 2, fmt="o", label="tracks")
    inside = np.diff(hagedorn(edges, edges[0], scale, power)) / hagedorn(edges[-1], edges[0], scale, power)
    axes.stairs(inside * spectrum.sum() / np.diff(edges) / collisions, edges, label=f"power {power:.2f}")
    axes.set(xscale="log", yscale="log", xlabel="$p_T$ [GeV]", ylabel="tracks per collision and GeV")
    axes.legend()
    return figure


if __name__ == "__main__":
    (found,) = branchline.load(sys.argv[1]).values()
    scale, scale_error, power, power_error = fitted(found["pt"])
    print(f"scale {scale:.3f} +- {scale_error:.3f} GeV, power {power:.2f} +- {power_error:.2f}")
    draw(found["pt"], found["collisions"], scale, power).savefig("spectrum.pdf")
