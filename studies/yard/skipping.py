"""What this machine lacks: raised where a study needs it, and told on its page."""


class LackingError(Exception):
    """The machine cannot make what a study needs. The text says what, and why."""
