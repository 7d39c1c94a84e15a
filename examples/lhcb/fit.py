"""Fits the masses of B+ and B- together, and prints the asymmetry of their numbers.

python examples/lhcb/fit.py out
"""

import sys

import numpy as np
from iminuit import Minuit, cost
from scipy import stats

import branchline

#: Names of the parameters: the numbers of both signals, their asymmetry, the shape of the peak, and the background.
START = {"signal": 1e3, "asymmetry": 0.0, "mean": 5280.0, "width": 20.0, "plus": 1e3, "minus": 1e3, "slope": 500.0}


def fitted(out):
    """Return the asymmetry (B- - B+) / (B- + B+) of the signal and its uncertainty."""
    found = branchline.load(out)["candidates"]
    edges = found["plus"].axes[0].edges
    low, high = edges[0], edges[-1]

    def expected(x, signal, background, mean, width, slope):
        """Return the number of candidates below ``x``: a Gaussian and an exponential within the limits."""
        peak = stats.norm.cdf(x, mean, width) - stats.norm.cdf(low, mean, width)
        falling = -np.expm1(-(x - low) / slope) / -np.expm1(-(high - low) / slope)
        return signal * peak + background * falling

    def plus(x, signal, asymmetry, mean, width, plus, slope):
        return expected(x, signal * (1 - asymmetry) / 2, plus, mean, width, slope)

    def minus(x, signal, asymmetry, mean, width, minus, slope):
        return expected(x, signal * (1 + asymmetry) / 2, minus, mean, width, slope)

    both = cost.ExtendedBinnedNLL(found["plus"].values(), edges, plus)
    both += cost.ExtendedBinnedNLL(found["minus"].values(), edges, minus)
    fit = Minuit(both, **START)
    fit.limits["signal", "width", "plus", "minus", "slope"] = (1e-3, None)
    fit.migrad()
    if not fit.valid:
        raise RuntimeError(f"the fit did not converge: {fit.fmin}")
    return fit.values["asymmetry"], fit.errors["asymmetry"]


if __name__ == "__main__":
    asymmetry, error = fitted(sys.argv[1])
    print(f"asymmetry {asymmetry:.4f} +- {error:.4f}")
