"""History of file reads: daily Parquet files that the database lists, and pending rows in the database."""
