"""Studies: rounds in random order, verdicts, reports, and storage elements that are watched for weeks."""
