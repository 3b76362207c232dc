"""Content that a trace did not record. Not captured is neither absent nor blank: its value is unknown.

Most instrumentations record no content by default. The case of a trace therefore lists, under `notCaptured` of its
metadata, the keys whose content no span recorded; a tool call lists there which of its `arguments` and `result` were
not. A test case lists nothing: content that it lacks is absent.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, Literal

from evaluators.errors import BadCase, EvaluationError, InTrace, NotCaptured, NotRead
from evaluators.model import Case, ToolCall

NOT_CAPTURED: Final = "notCaptured"
"""The key of the metadata of cases and of tool calls that lists the content that was not recorded."""

NOT_READ: Final = "notRead"
"""The key of the metadata of a case that lists the content that was not read, because the trace or session is too
long."""

SPAN_COUNT: Final = "spanCount"
"""The key of the metadata of a case with `notRead` content: the number of spans of its trace or session."""

IN_TRACE: Final = "inTrace"
"""The key of the metadata of a case that lists content missing from it that a trace, not yet read, may supply."""

CAPTURE_HINT: Final = "captureHint"
"""The key of a case's metadata with advice on how to make the application's library record `input` and `output`."""

MARKS: Final = frozenset({NOT_CAPTURED, NOT_READ, SPAN_COUNT, IN_TRACE, CAPTURE_HINT})
"""The keys of a case's metadata about its completeness, which are not shown to judges."""

CallContent = Literal["arguments", "result"]
"""Content of a tool call that may not be captured; its name always is."""

NULL_RESULT: Final = "nullResult"
"""The flag in the metadata of a recorded tool call whose result is null; in a test case, null means no result."""

ARGUMENTS: Final[tuple[CallContent, ...]] = ("arguments",)
RESULT: Final[tuple[CallContent, ...]] = ("result",)
EVERYTHING: Final[tuple[CallContent, ...]] = ("arguments", "result")
NAMES_ONLY: Final[tuple[CallContent, ...]] = ()
"""The content that an evaluator needs if it reads only the names of calls."""


def is_captured(call: ToolCall, content: CallContent) -> bool:
    """Return whether this content of a call was recorded, be it blank, null or absent."""
    return content not in _listed(call.metadata)


def is_whole(call: ToolCall) -> bool:
    """Return whether all content of a call was recorded."""
    return not _listed(call.metadata)


def is_blank(call: ToolCall) -> bool:
    """Return whether the result of a call is blank, or absent from a test case; a null that was recorded is neither."""
    if call.result is None:
        return call.metadata.get(NULL_RESULT) is not True
    return isinstance(call.result, str) and not call.result.strip()


def require_captured(calls: Iterable[ToolCall], content: Collection[CallContent]) -> None:
    """Refuse calls of which some content was not recorded.

    Raises:
        NotCaptured: the content of a call was not recorded.
    """
    for call in calls if content else ():
        for one in content:
            if not is_captured(call, one):
                raise NotCaptured(f"the {'result' if one == 'result' else 'arguments'} of {call.name}")


def lacks(case: Case, key: str) -> bool:
    """Return whether the trace did not record this part of a case, or is too long for it to be read."""
    return isinstance(_lacking(case, key), NotCaptured)


def require_part(case: Case, key: str) -> None:
    """Refuse a case of a trace that did not record this part of the inputs, the outputs or the metadata.

    Raises:
        NotCaptured: the trace did not record the part, or is too long for it to be read (`NotRead`).
        InTrace: the trace was not read yet.
    """
    if (lacking := _lacking(case, key)) is not None:
        raise lacking


def require_read(case: Case, key: str) -> None:
    """Refuse a case whose trace was not read yet and may supply this optional part.

    Raises:
        InTrace: the trace may supply the part.
    """
    if isinstance(lacking := _lacking(case, key), InTrace):
        raise lacking


def missing(case: Case, key: str, message: str) -> EvaluationError:
    """Return the error for a part that a case lacks: not recorded by the trace, not read yet, or absent."""
    return _lacking(case, key) or BadCase(message)


def _lacking(case: Case, key: str) -> NotCaptured | InTrace | None:
    if key in _listed(case.metadata, IN_TRACE):
        return InTrace(key)
    if key in _listed(case.metadata, NOT_READ):
        return NotRead(key, case.metadata.get(SPAN_COUNT))
    if key not in _listed(case.metadata):
        return None
    hints = case.metadata.get(CAPTURE_HINT)
    return NotCaptured(key, hints.get("input" if key == "input" else "output") if isinstance(hints, Mapping) else None)


def _listed(metadata: Mapping[str, Any], under: str = NOT_CAPTURED) -> Collection[str]:
    listed = metadata.get(under)
    return listed if isinstance(listed, list | tuple) else ()
