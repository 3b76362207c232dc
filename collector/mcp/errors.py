"""What a model is told when something cannot be done."""


class Refused(Exception):
    """The API refused, or there is nothing; the message says what would be right."""


class NoServer(Refused):
    """Nobody answers."""
