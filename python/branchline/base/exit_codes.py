"""How a run ends, as the exit code of the command line."""

EXIT_OK = 0
EXIT_ERROR = 1
# As of most programs.
EXIT_USAGE = 2
EXIT_INCOMPLETE = 3
EXIT_INTERRUPTED = 130
