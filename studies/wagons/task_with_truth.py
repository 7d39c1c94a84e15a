"""A task that compares with what was generated."""

from studies.wagons.tasks import FOR_THE_TRAIN, Task

wagons = [Task("task", FOR_THE_TRAIN, 2, truth=True)]
