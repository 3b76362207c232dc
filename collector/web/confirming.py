"""Pages that ask before a step that cannot be undone, and pages that show a secret once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fastapi import Request
from fastapi.responses import Response
from markupsafe import Markup

from collector.delivery.receivers import FromFile
from collector.web.rendering import page, see_other
from storage.errors import Conflict


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """The text of a confirmation page. Escape foreign text in `message` with `one_line`."""

    title: str
    message: str | Markup
    action: str  # the address to which the form is sent
    button: str
    back: str  # the address of the page to return to without the step
    hidden: Sequence[tuple[str, str]] = ()
    is_final: bool = True  # True: the step cannot be undone


def ask(request: Request, question: Confirmation, *, problem: str = "", status: int = 200) -> Response:
    """Show the question, and after a failed attempt also the problem."""
    return page(request, "confirm.html", status=status, question=question, problem=problem)


def attempt(request: Request, question: Confirmation, act: Callable[[], object], *, then: str) -> Response:
    """Call `act` and redirect to `then`; after a refusal show the question again with the reason."""
    try:
        act()
    except (Conflict, FromFile) as error:
        return ask(request, question, problem=str(error), status=409)
    return see_other(then)


def show_once(request: Request, *, title: str, message: str, secret: str, back: str) -> Response:
    """Show a secret with a button that copies it. Browsers must not cache the page."""
    return page(request, "shown_once.html", status=201, title=title, message=message, secret=secret, back=back)
