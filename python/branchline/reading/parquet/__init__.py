"""Parquet files with the interface of the engine's files, trees and streams, based on pyarrow."""
