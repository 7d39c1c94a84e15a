"""What is wrong at sites, storage elements and jobs, each finding with its evidence and what might be done."""
