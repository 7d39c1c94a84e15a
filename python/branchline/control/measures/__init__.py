"""Measures: corrective actions that an operator switches on and jobs apply."""
