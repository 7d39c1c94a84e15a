"""Rows of files that jobs have read: Parquet files by day, which the database lists, and rows that wait for them."""
