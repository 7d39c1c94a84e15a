"""Makes `python -m branchline.cli` the command `branchline`, for environments without the installed script."""

from branchline.cli import main

main()
