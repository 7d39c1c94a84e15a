"""Plots of histograms: simple histograms as SVG without matplotlib, all others with matplotlib."""
