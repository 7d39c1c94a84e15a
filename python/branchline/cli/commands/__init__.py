"""The commands, each a function whose signature declares its arguments and options."""
