"""Tables for the terminal. The modules import rich and awkward only when a table is printed."""
