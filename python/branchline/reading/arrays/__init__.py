"""Zero-copy conversion of the engine's columns to awkward, NumPy, Arrow and pandas."""
