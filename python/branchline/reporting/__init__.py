"""Reports of a job to a control room: collected, kept on disk until they are sent, sent once."""
