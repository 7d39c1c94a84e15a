"""Trains: wagons that share one read of a dataset, what becomes of their results, and a forecast of both."""

from branchline.train.accumulators import CannotAddError, add
from branchline.train.events import Events
from branchline.train.forecasting import Forecast, WagonForecast, forecast
from branchline.train.progress import TrainProgress
from branchline.train.result import TrainResult
from branchline.train.running import run_train
from branchline.train.share_result import FAILED, FINISHED, PARTIAL, RUNNING, JobError
from branchline.train.wagons import Wagon, load_wagons, wagons_of

__all__ = [
    "FAILED",
    "FINISHED",
    "PARTIAL",
    "RUNNING",
    "CannotAddError",
    "Events",
    "Forecast",
    "JobError",
    "TrainProgress",
    "TrainResult",
    "Wagon",
    "WagonForecast",
    "add",
    "forecast",
    "load_wagons",
    "run_train",
    "wagons_of",
]
