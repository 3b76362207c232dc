"""What a model is told when something cannot be done."""

from collections.abc import Mapping, Sequence


class ToolRefused(Exception):
    """The API refused, or there is nothing; the message says what would be right.

    `data` is what applications sent and the message needs: it is fenced.
    """

    def __init__(self, message: str, data: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.data = data


class NoServer(ToolRefused):
    """Nobody answers."""


class ServerBusy(ToolRefused):
    """The server takes the same request later."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
