"""A train of 23 tasks, of which eight compare with what was generated."""

from studies.wagons.tasks import FOR_THE_TRAIN, TRACKS, Task

wagons = [
    Task(f"task{number}", FOR_THE_TRAIN if number == 0 else TRACKS, 12, truth=number % 3 == 1) for number in range(23)
]
