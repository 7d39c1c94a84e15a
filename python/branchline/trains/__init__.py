"""Trains: many wagons (analyses) over one dataset with a single read, run locally or submitted to a batch system.

`run.py` is `branchline.run`, `plan.py` the plan of a train. Start with `wagons/wagons.py` and `running/train_run.py`.
"""
