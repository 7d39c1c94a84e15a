"""The pages of the control room, and the routes of scripts and jobs."""
