"""The test case that the target of a rule is."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from collector.conventions.own import OwnKeys
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
"""In the document of a job that was not looked at, because its evaluator took too long for another one just before."""


class ExaminedTarget(NamedTuple):
    """What a job is about: a session, or a trace, or with a span id that span of it."""

    tenant: str
    trace_id: str | None
    span_id: str | None
    session_id: str | None


_TOLD_BY_ENDS: Final = frozenset({"input", "output", "traceId", "sessionId", "userId"})
"""The parts of a case that the roots and the first and last spans tell; all others take every span."""

_SPREAD: Final = (
    "toolCalls", "context", "retrievalContext", "trajectory", "reasoningSteps", "turns", "tools", "traceSummary",
    "turnCount",
)  # fmt: skip


class ExaminedPart(NamedTuple):
    """Of a trace or session that is too long, how many spans were looked at, and how many there are."""

    seen: int
    there: int

    def case(self, case: Case) -> Case:
        """Return what such spans tell of a case: input and output. Nothing that is spread over all spans is judged."""
        inputs, outputs, metadata = (
            {key: values[key] for key in _TOLD_BY_ENDS if key in values}
            for values in (case.inputs, case.actual_outputs, case.metadata)
        )
        lacking = [key for key in case.metadata.get(NOT_CAPTURED) or () if key in _TOLD_BY_ENDS]
        marks = {NOT_CAPTURED: lacking} if lacking else {}
        metadata |= {**marks, NOT_READ: list(_SPREAD), SPAN_COUNT: self.there}
        return unchecked_case(inputs=inputs, actual_outputs=outputs, expected_outputs={}, metadata=metadata)

    def noted_in(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document of an outcome that says so."""
        metadata = {**document["metadata"], "spansSeen": self.seen, SPAN_COUNT: self.there}
        if document["outcome"] != "verdict":
            return {**document, "metadata": metadata}
        note = f"Judged by input and output alone, because {self.there} spans are too many to be read."
        return {**document, "reason": f"{note} {document['reason'] or ''}".strip(), "metadata": metadata}


JUDGED_CHARACTERS: Final = 300
"""Of the judged output, kept with its verdict. A guess: enough to tell it from another one."""


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
    """What spans tell: all of a trace, or one of them by itself."""
    return case_of_trace(read_trace(spans, logs, own), spans)


def case_for_rule(case: Case, rule: Mapping[str, Any], *, asks_for_input: bool) -> Case:
    """The case with what a rule adds: the tools where spans tell none, what it expects, and an input if there is none.

    A rule that has criteria and nothing else is about spans without an input too.
    """
    inputs, metadata = case.inputs, case.metadata
    if rule["tools"] is not None:
        metadata = with_default(metadata, "tools", rule["tools"])
    if asks_for_input:
        inputs = with_default(inputs, "input", "")
    return unchecked_case(
        inputs=inputs,
        actual_outputs=case.actual_outputs,
        expected_outputs=rule["expected"] or {},
        metadata=metadata,
    )


def asks_for_input(rule: Mapping[str, Any]) -> bool:
    """Whether a rule needs an input in form only: its check reads none, or it has criteria and names no other parts."""
    try:
        kind = kind_of(rule["evaluator"])
        settings = kind.settings(rule["config"])
    except BadConfiguration:  # the evaluator will say so itself
        return False
    if "INPUT" not in settings.evaluation_params:
        return False
    is_default = rule["evaluator"] == LLM_JUDGE and rule["config"].get("evaluationParams") == SHOWN_BY_DEFAULT
    return is_default or kind.judge(settings) == "never"
