"""Routes for programs: reports of jobs, and metrics for Prometheus."""
