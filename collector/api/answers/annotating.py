"""What people, applications and their users say of what was recorded."""

from typing import Any, Literal

from collector.api.answers.base import ApiAnswer


class AnnotationDocument(ApiAnswer):
    """What somebody said of a trace, a span, a session or an item of a run."""

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
    note: str | None
    overridden_expected_output: Any
    source: Literal["person", "adjudicator", "application", "user"]
    author: str
    withdrawn: bool
    superseded: bool
    created_at: str


class ScoresReceipt(ApiAnswer):
    """How many scores were stored, and of how many the same had been said already."""

    tenant: str
    stored: int
    unchanged: int
