"""A task that needs a tenth of the branches."""

from studies.wagons.tasks import TRACKS, Task

wagons = [Task("few", TRACKS[:40], 1)]
