"""`python -m branchline.cli` is the command `branchline`, for where no script is installed."""

from branchline.cli import main

main()
