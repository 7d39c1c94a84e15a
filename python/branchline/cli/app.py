"""The command line with all commands."""

from branchline.cli.commands import COMMANDS
from branchline.cli.full import application

app = application(COMMANDS)
