"""Tables for the terminal. They import rich and awkward only when they are printed."""
