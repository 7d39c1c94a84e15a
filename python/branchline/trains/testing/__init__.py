"""`branchline test`: a trial of each wagon on a sample, its profile, and a forecast of the cost."""
