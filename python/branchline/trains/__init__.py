"""Trains: many wagons (analyses) that share a single read of a dataset, run locally or submitted to a batch system.

`run.py` is `branchline.run`, `plan.py` the plan of a train. Start with `wagons/wagons.py` and `running/train_run.py`.
"""

from typing import TYPE_CHECKING

from branchline.base.imports import lazily

if TYPE_CHECKING:
    from branchline.trains.sums.accumulators import add

__all__ = ["add"]

__getattr__ = lazily(__name__, {"branchline.trains.sums.accumulators": ("add",)})
