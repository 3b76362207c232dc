"""Names that are the same in every dialect: of resources, of exceptions, of identifiers that join spans."""

from collections.abc import Iterable, Mapping
from typing import Literal

from collector.conventions.values import text_of
from storage.records import AttributeValue

PROJECT_KEYS = ("dokimos.project", "dokimos.project.name", "openinference.project.name", "service.name")
"""Resource attributes that name the project, strongest first."""

SERVICE_NAME = "service.name"
SERVICE_VERSION = "service.version"
ENVIRONMENT_KEYS = ("deployment.environment.name", "deployment.environment")
"""Resource attributes that name the environment of a deployment: the current name, and the one before."""

EXCEPTION_EVENT = "exception"
EXCEPTION_TYPE = "exception.type"
EXCEPTION_MESSAGE = "exception.message"

RESPONSE_ID = "gen_ai.response.id"
"""Id of a model's answer: spans that share it are about the same call."""

UNCAPTURED = "content is not captured"
"""Note on the input or the output of a model's span, with the setting that captures it in brackets."""

RECORD = "has token counts of a model, but no operation and no messages; and is no call beside one of equal counts"
"""Note on a span that may only record the usage of a call."""

LAST_STEP_SCOPES = ("@voltagent/",)
"""Scopes of libraries whose model spans have only the last of several calls, and whose agents have all of them."""

PENDING = ("logfire.span_type", "pending_span")
"""Attribute and value that mark the announcement of a span, which is sent again when it has ended."""


_REASONS = {
    "input": "capture is on, as the output shows: the library left the input out",
    "output": "capture is on, as the input shows: the library left the output out",
    "failed": "the call failed, perhaps before the library recorded it",
}
"""Reasons why content is missing although capture is on, by the missing side, or `failed`."""


def uncaptured_note(setting: str, reason: Literal["input", "output", "failed"] | None = None) -> str:
    """Return the note of a side without content, with the setting that captures it unless a reason is known."""
    hint = setting if reason is None else _REASONS[reason]
    return f"{UNCAPTURED} ({hint})" if hint else UNCAPTURED


def capture_hint(notes: Iterable[str], side: str = "") -> str | None:
    """Return from the notes how to capture missing content ("" if unknown); None if it was captured.

    The first setting comes before the reasons of single spans. If a side is given, `input` or `output`, only notes
    about it count.
    """
    parts = (note.partition(f": {UNCAPTURED}") for note in notes if note.startswith(side))
    hints = [rest.removeprefix(" (").removesuffix(")") for _, mark, rest in parts if mark]
    return min(hints, key=lambda hint: hint in _REASONS.values(), default=None)


def project_of(resource_attributes: Mapping[str, AttributeValue]) -> str:
    """Return the project of a resource; "" if it names none."""
    texts = (text_of(resource_attributes.get(key)) for key in PROJECT_KEYS)
    return next((text for text in texts if text and not text.isspace()), "")


def service_of(resource_attributes: Mapping[str, AttributeValue]) -> str:
    """Return the service name of a resource; "" if it has none."""
    text = text_of(resource_attributes.get(SERVICE_NAME)) or ""
    return "" if text.isspace() else text
