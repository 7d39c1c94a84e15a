"""Branch name filters, Python expressions, and the formulas stored in ROOT files."""
