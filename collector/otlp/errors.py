"""What the decoder raises."""


class Malformed(Exception):
    """The sender is wrong: the same bytes cannot succeed later. The message names the place."""
