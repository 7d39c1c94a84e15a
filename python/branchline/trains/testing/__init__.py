"""`branchline test`: a trial of each wagon on a sample of the dataset, its profile, and a forecast of the train's
cost.
"""
