"""One light task that reads all branches."""

from studies.wagons.tasks import ALL, Task

wagons = [Task("simple", ALL, 1)]
