"""Pictures of histograms: simple ones as SVG without matplotlib, all others by matplotlib."""
