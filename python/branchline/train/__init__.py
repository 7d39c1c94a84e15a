"""Trains: wagons that share one read of a dataset, what becomes of their results, and a forecast of both."""

from branchline.train.accumulators import CannotAddError, add
from branchline.train.events import Events
from branchline.train.forecasting import Forecast, WagonForecast, forecast
from branchline.train.result import TrainResult
from branchline.train.running import run_train
from branchline.train.wagons import Wagon, load_wagons, wagons_of

__all__ = [
    "CannotAddError",
    "Events",
    "Forecast",
    "TrainResult",
    "Wagon",
    "WagonForecast",
    "add",
    "forecast",
    "load_wagons",
    "run_train",
    "wagons_of",
]
