"""The web server of the control room: pages for people, routes for scripts and jobs."""
