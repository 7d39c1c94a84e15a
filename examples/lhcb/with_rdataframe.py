"""The same analysis with ROOT's RDataFrame."""

import glob
import sys

import numpy as np
import ROOT

ROOT.gInterpreter.Declare("""
#ifndef BRANCHLINE_EXAMPLE_LHCB
#define BRANCHLINE_EXAMPLE_LHCB
ROOT::Math::PxPyPzMVector kaon(double x, double y, double z) { return {x, y, z, 493.677}; }
#endif
""")


def run(files, workers=1):
    """Return the bin contents by name."""
    if workers > 1:
        ROOT.EnableImplicitMT(workers)
    frame = ROOT.RDataFrame("DecayTree", sorted(glob.glob(files)))
    frame = frame.Filter("B_FlightDistance > 2 && B_VertexChi2 < 9")
    for one in ("H1", "H2", "H3"):
        frame = frame.Filter(f"{one}_ProbK > 0.5 && {one}_ProbPi < 0.5 && {one}_isMuon == 0")
    for one in ("H1", "H2", "H3"):
        frame = frame.Define(f"{one}_kaon", f"kaon({one}_PX, {one}_PY, {one}_PZ)")
    frame = frame.Define("mass", "(H1_kaon + H2_kaon + H3_kaon).M()")
    frame = frame.Define("charge", "H1_Charge + H2_Charge + H3_Charge")
    model = ROOT.RDF.TH1DModel("mass", "", 100, 5050.0, 5650.0)
    booked = {
        "plus": frame.Filter("charge > 0").Histo1D(model, "mass"),
        "minus": frame.Filter("charge < 0").Histo1D(model, "mass"),
    }
    signal = frame.Filter("std::abs(mass - 5279.3) < 60")
    signal = signal.Define("one", "(H1_kaon + H2_kaon).M2() / 1e6").Define("other", "(H2_kaon + H3_kaon).M2() / 1e6")
    signal = signal.Define("low", "std::min(one, other)").Define("high", "std::max(one, other)")
    plane = ROOT.RDF.TH2DModel("dalitz", "", 30, 0.0, 15.0, 30, 0.0, 30.0)
    booked["dalitz"] = signal.Histo2D(plane, "low", "high")
    return {name: values(one.GetValue()) for name, one in booked.items()}


def values(histogram):
    """Return the bin contents with underflow and overflow."""
    columns, rows = histogram.GetNbinsX() + 2, histogram.GetNbinsY() + 2
    if histogram.GetDimension() == 1:
        return np.array([histogram.GetBinContent(column) for column in range(columns)])
    return np.array([[histogram.GetBinContent(column, row) for row in range(rows)] for column in range(columns)])


if __name__ == "__main__":
    print(run(sys.argv[1]))
