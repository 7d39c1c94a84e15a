"""Measures: corrective actions that an operator switches on, one by one, and that jobs obey."""
