"""Errors of tools, as models get them."""

from collections.abc import Mapping, Sequence


class ToolRefused(Exception):
    """Refusal of the API, or a missing object; the message says how to correct the call.

    `data` holds texts of applications that belong to the message; they are fenced as data.
    """

    def __init__(self, message: str, data: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__(message)
        self.data = data


class NoServer(ToolRefused):
    """No response from the server."""


class ServerBusy(ToolRefused):
    """Overload: the server takes the same request later."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
