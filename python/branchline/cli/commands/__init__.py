"""The commands: functions whose signatures declare the command-line arguments and options."""
