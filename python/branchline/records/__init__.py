"""Records: what a job leaves behind, as measurements, result files, pictures, a report, and messages to a control room.

`sensors/record.py` defines the record of a job; all other parts are derived from it. Start there, then `output.py`.
"""
