"""What a job leaves behind for people and programs: results, pictures, records, and the report drawn from them.

What is wanted is imported from its module: drawing takes matplotlib, which takes longer to import than many a command.
"""
