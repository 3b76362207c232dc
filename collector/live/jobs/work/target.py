"""Test cases that are made of the targets of rules."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from collector.conventions.own_keys import OwnKeys
from collector.conventions.trace import read_trace
from collector.evaluation.deferred import DeferredParts, with_default
from collector.evaluation.trace_case import case_of_trace
from collector.live.jobs.work.storable import storable_text
from evaluators.captured import NOT_CAPTURED, NOT_READ, SPAN_COUNT
from evaluators.errors import BadConfiguration
from evaluators.model import Case, text_of, unchecked_case
from evaluators.registry import kind_of
from rules.rule_text import LLM_JUDGE, SHOWN_BY_DEFAULT
from storage.records import LogRecord, Span

POSTPONED: Final = "postponed"
"""Error kind of a job that was not examined, because its evaluator just took too long for another job."""


class ExaminedTarget(NamedTuple):
    """Target of a job: a session, a trace, or, if `span_id` is set, that span of the trace."""

    tenant: str
    trace_id: str | None
    span_id: str | None
    session_id: str | None


_KNOWN_BY_ENDS: Final = frozenset({"input", "output", "traceId", "sessionId", "userId"})
"""Keys of a case that the roots and the first and last spans suffice for; all others need every span."""

_SPREAD: Final = (
    "toolCalls", "context", "retrievalContext", "trajectory", "reasoningSteps", "turns", "tools", "traceSummary",
    "turnCount",
)  # fmt: skip


class ExaminedPart(NamedTuple):
    """The read part of a trace or session that is too long: spans read, and spans in all."""

    seen: int
    total: int

    def case(self, case: Case) -> Case:
        """Reduce a case of these spans to input, output and ids; mark values spread over all spans as not read."""
        inputs, outputs, metadata = (
            {key: values[key] for key in _KNOWN_BY_ENDS if key in values}
            for values in (case.inputs, case.actual_outputs, case.metadata)
        )
        lacking = [key for key in case.metadata.get(NOT_CAPTURED) or () if key in _KNOWN_BY_ENDS]
        marks = {NOT_CAPTURED: lacking} if lacking else {}
        metadata |= {**marks, NOT_READ: list(_SPREAD), SPAN_COUNT: self.total}
        return unchecked_case(inputs=inputs, actual_outputs=outputs, expected_outputs={}, metadata=metadata)

    def noted_in(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of an outcome with a note that only a part was read."""
        metadata = {**document["metadata"], "spansSeen": self.seen, SPAN_COUNT: self.total}
        if document["outcome"] != "verdict":
            return {**document, "metadata": metadata}
        note = f"Judged by input and output alone, because {self.total} spans are too many to be read."
        return {**document, "reason": f"{note} {document['reason'] or ''}".strip(), "metadata": metadata}


JUDGED_CHARACTERS: Final = 300
"""Limit of the judged output that is stored with its verdict. A guess: enough to recognise it."""


def with_judged(document: Mapping[str, Any], outputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the document of an outcome with the beginning of the output that was judged, if it was read."""
    output = outputs.read("output") if isinstance(outputs, DeferredParts) else outputs.get("output")
    if document["outcome"] != "verdict" or output is None:
        return document
    text = output if isinstance(output, str) else text_of(output)
    judged: dict[str, Any] = {"judgedOutput": storable_text(text[:JUDGED_CHARACTERS])}
    if len(text) > JUDGED_CHARACTERS:
        judged["judgedCharacters"] = len(text)
    return {**document, "metadata": {**document["metadata"], **judged}}


def case_of_target(spans: Sequence[Span], logs: Sequence[LogRecord], own: OwnKeys) -> Case:
    """Make a case of all spans of a trace, or of one of them by itself."""
    return case_of_trace(read_trace(spans, logs, own), spans)


def case_for_rule(case: Case, rule: Mapping[str, Any], *, asks_for_input: bool) -> Case:
    """Add to a case what the rule has: tools if the spans have none, expectations, and an input if there is none.

    So a rule that has only criteria can judge spans without an input, too.
    """
    inputs, metadata, additions = case.inputs, case.metadata, rule["additions"]
    if "tools" in additions:
        metadata = with_default(metadata, "tools", additions["tools"])
    if asks_for_input:
        inputs = with_default(inputs, "input", "")
    return unchecked_case(
        inputs=inputs,
        actual_outputs=case.actual_outputs,
        expected_outputs=additions.get("expected", {}),
        metadata=metadata,
    )


def asks_for_input(rule: Mapping[str, Any]) -> bool:
    """Return True if a missing input may count as an empty one: for a check, or a judge with the default parts.

    Both need INPUT among their `evaluationParams`.
    """
    try:
        kind = kind_of(rule["evaluator"])
        settings = kind.settings(rule["config"])
    except BadConfiguration:  # the evaluator will report it
        return False
    if "INPUT" not in settings.evaluation_params:
        return False
    is_default = rule["evaluator"] == LLM_JUDGE and rule["config"].get("evaluationParams") == SHOWN_BY_DEFAULT
    return is_default or kind.judge(settings) == "never"
