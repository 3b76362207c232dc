"""Annotations on the wire."""

from typing import Annotated, Any, Literal

from collector.api.responses.wire import WireDocument, doc


class AnnotationDocument(WireDocument):
    """A vote, a score or a note about a trace, a span, a session or an item of a run."""

    tenant: str
    target: Literal["trace", "span", "session", "run_item"]
    project_name: str | None
    trace_id: str | None
    span_id: str | None
    session_id: str | None
    run_id: str | None
    item_result_id: str | None
    name: str
    verdict: Literal["CORRECT", "INCORRECT", "UNSURE"] | None
    label: str | None
    score: float | None
    passed: bool | None
    error_kind: Annotated[str | None, doc("The kind of error of an event that is not a verdict, whatever its label.")]
    note: str | None
    overridden_expected_output: Any
    source: Literal["person", "adjudicator", "application", "user"]
    author: str
    withdrawn: bool
    superseded: bool
    created_at: str
