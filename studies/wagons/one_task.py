"""A task that leaves out FMD and calorimeters."""

from studies.wagons.tasks import FOR_THE_TRAIN, Task

wagons = [Task("task", FOR_THE_TRAIN, 2)]
