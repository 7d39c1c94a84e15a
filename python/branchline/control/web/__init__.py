"""The control room's web server: pages for people, and routes for scripts and jobs."""
