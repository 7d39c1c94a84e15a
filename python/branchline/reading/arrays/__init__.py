"""Columns of the engine as awkward, NumPy, Arrow and pandas arrays, without a copy."""
