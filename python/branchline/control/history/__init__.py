"""History of file reads: daily Parquet files listed in the database, and the rows not yet written."""
