"""The lab: performance forecasts, advice, simulations of concurrent jobs, measured comparisons and studies.

It implements `branchline forecast`, `advise`, `compare` and `study`. Start with `forecast/forecasting.py`.
"""
