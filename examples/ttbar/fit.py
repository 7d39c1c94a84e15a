"""Fits the signal strength with cabinetry, and again with pyhf as a cross-check.

python examples/ttbar/fit.py out
"""

import sys

import cabinetry
import pyhf

import branchline

REGIONS = {"4j1b": "selected/4j1b", "4j2b": "selected/4j2b"}


def fitted(out):
    """Return the signal strength and its uncertainty from cabinetry, and the signal strength from pyhf."""
    specification = branchline.workspace(out, REGIONS)
    model, data = cabinetry.model_utils.model_and_data(specification)
    result = cabinetry.fit.fit(model, data)
    place = result.labels.index("mu")
    workspace = pyhf.Workspace(specification)
    model = workspace.model()
    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer())
    pulls = pyhf.infer.mle.fit(workspace.data(model), model)
    return float(result.bestfit[place]), float(result.uncertainty[place]), float(pulls[model.config.poi_index])


if __name__ == "__main__":
    strength, error, by_pyhf = fitted(sys.argv[1])
    print(f"signal strength {strength:.3f} +- {error:.3f} (cabinetry), {by_pyhf:.3f} (pyhf)")
