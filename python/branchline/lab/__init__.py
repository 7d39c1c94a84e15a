"""The lab: what is faster and by how much, as forecasts, advice, simulated jobs, measured comparisons and studies.

`branchline forecast`, `advise`, `compare` and `study` start here. Start with `study.py` and `forecast/forecasting.py`.
"""
