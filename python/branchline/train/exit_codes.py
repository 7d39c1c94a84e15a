"""How a run ends, as the exit code of the command line; 2 is for wrong usage, as everywhere."""

EXIT_OK = 0
EXIT_ERROR = 1
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130
