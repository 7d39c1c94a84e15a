"""Who may use a shared control room: accounts with passwords, sessions of browsers, and tokens of jobs and scripts."""
