"""What a job leaves behind for people and programs: results, pictures, records, and the report drawn from them."""

from branchline.report.diagnosis import diagnosis
from branchline.report.summary import summary
from branchline.report.writing import write_out

__all__ = ["diagnosis", "summary", "write_out"]
