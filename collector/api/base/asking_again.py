"""Reading is done again where the database was opened again in the middle of it, so that whoever asked only waits."""

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_READING: Final = frozenset({"GET", "HEAD"})
_ENDED: Final = "ended_by_reopening"


def note_reopened(request: Request) -> None:
    """Say of a request that the database was opened again in the middle of it."""
    request.scope["state"][_ENDED] = True


class AskingAgain:
    """Around the application: what was so noted, and only reads, is handed to it once more in place of its answer."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, at the second attempt if the first was ended."""
        state = scope.setdefault("state", {})
        if scope["type"] != "http" or scope["method"] not in _READING:
            await self._application(scope, receive, send)
            return

        async def send_unless_ended(message: Message) -> None:
            if not state.get(_ENDED):
                await send(message)

        await self._application(scope, receive, send_unless_ended)
        if state.pop(_ENDED, False):
            await self._application(scope, receive, send)
