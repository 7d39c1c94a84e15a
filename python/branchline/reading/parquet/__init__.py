"""Parquet files behind the interface of the engine's files, trees and streams, over pyarrow."""
