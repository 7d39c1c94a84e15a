"""The control room: job reports, findings, wagons, trials, plans, trains and people. Pages are in `control/web`.

State is in one SQLite database, history in Parquet files. Start with `room.py` and `database.py`.
"""
