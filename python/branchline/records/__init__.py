"""Records: the output of a job, such as measurements, result files, pictures, a report, and messages to a control room.

`sensors/record.py` defines the record of a job; everything else is derived from it. Start there, then `output.py`.
"""
