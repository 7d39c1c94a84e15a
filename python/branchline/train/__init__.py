"""Trains: wagons that share one read of a dataset, what becomes of their results, and a forecast of both."""

from typing import TYPE_CHECKING

from branchline.lazily import lazily

if TYPE_CHECKING:
    from branchline.train.accumulators import CannotAddError, add
    from branchline.train.cutflow import Cutflow
    from branchline.train.events import Events
    from branchline.train.forecasting import Forecast, WagonForecast, forecast
    from branchline.train.plan import TrainRequest, TrainSettings
    from branchline.train.result import TrainResult
    from branchline.train.running import run_train
    from branchline.train.share_result import JobError
    from branchline.train.sharing import Shared
    from branchline.train.variations import varied
    from branchline.train.wagons import Wagon, load_wagons, wagons_of

__all__ = [
    "CannotAddError",
    "Cutflow",
    "Events",
    "Forecast",
    "JobError",
    "Shared",
    "TrainRequest",
    "TrainResult",
    "TrainSettings",
    "Wagon",
    "WagonForecast",
    "add",
    "forecast",
    "load_wagons",
    "run_train",
    "varied",
    "wagons_of",
]

__getattr__ = lazily(
    __name__,
    {
        "branchline.train.accumulators": ("CannotAddError", "add"),
        "branchline.train.events": ("Events",),
        "branchline.train.forecasting": ("Forecast", "WagonForecast", "forecast"),
        "branchline.train.plan": ("TrainRequest", "TrainSettings"),
        "branchline.train.cutflow": ("Cutflow",),
        "branchline.train.sharing": ("Shared",),
        "branchline.train.variations": ("varied",),
        "branchline.train.result": ("TrainResult",),
        "branchline.train.running": ("run_train",),
        "branchline.train.share_result": ("JobError",),
        "branchline.train.wagons": ("Wagon", "load_wagons", "wagons_of"),
    },
)
