"""Shared parts of all writers: targets, fields, columns, ROOT and Parquet files."""
