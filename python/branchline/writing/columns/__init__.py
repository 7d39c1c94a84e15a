"""The parts of an output that every writer shares: targets, fields, columns, ROOT and Parquet files."""
