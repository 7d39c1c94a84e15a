"""A train of the 15 tasks that need nothing of what was generated."""

from studies.wagons.tasks import FOR_THE_TRAIN, TRACKS, Task

wagons = [Task(f"task{number}", FOR_THE_TRAIN if number == 0 else TRACKS, 12) for number in range(15)]
