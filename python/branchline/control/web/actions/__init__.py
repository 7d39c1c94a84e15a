"""Actions of the web pages: what buttons and forms change."""
