"""Fits the signal strength in all channels together with pyhf, and draws the mass in each channel.

python examples/higgs/fit.py out
"""

import sys

import pyhf

import branchline

REGIONS = {f"channel_{name}": f"four_leptons/{name}" for name in ("4mu", "4e", "2e2mu")}


def fitted(out):
    """Return the signal strength and its uncertainty."""
    pyhf.set_backend("numpy", pyhf.optimize.minuit_optimizer())
    workspace = pyhf.Workspace(branchline.workspace(out, REGIONS))
    model = workspace.model()
    result = pyhf.infer.mle.fit(workspace.data(model), model, return_uncertainties=True)
    value, error = result[model.config.poi_index]
    return float(value), float(error)


if __name__ == "__main__":
    strength, error = fitted(sys.argv[1])
    print(f"signal strength {strength:.2f} +- {error:.2f}")
    for histogram in REGIONS.values():
        branchline.plot(sys.argv[1], histogram, overflow=False).savefig(f"{histogram.partition('/')[2]}.pdf")
