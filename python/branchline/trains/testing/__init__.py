"""`branchline test`: tries each wagon on a sample of the dataset, profiles it, and forecasts the cost of the train."""
