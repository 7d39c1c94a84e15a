"""Three tasks over all branches: the light one, and two that compute."""

from studies.wagons.tasks import ALL, TRACKS, Task

wagons = [Task("simple", ALL, 1), Task("spectra", TRACKS, 20), Task("flow", TRACKS, 40)]
