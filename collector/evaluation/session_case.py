"""The test case of a session: its conversation, each message once, and the sums of its traces."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from collector.conventions.own_keys import OwnKeys
from collector.conventions.trace import read_trace
from collector.conversation import SessionTurn, session_conversation, session_trace
from collector.evaluation.trace_case import case_of_trace, conversation_of, tool_call_of
from evaluators.captured import CAPTURE_HINT, NOT_CAPTURED
from evaluators.model import Case, Conversation
from evaluators.summary import RunSummary, TokenUsage
from storage.records import LogRecord, Span, TraceSummary

_Amount = TypeVar("_Amount", int, float)


@dataclass(frozen=True, slots=True)
class _CaseTurn:
    """One trace of the session, as its case and as a turn."""

    case: Case
    turn: SessionTurn
    conversation: Conversation

    @property
    def document(self) -> dict[str, Any]:
        """Return the turn for evaluators of single turns; its messages are in the conversation."""
        return {"traceId": self.turn.trace.summary.trace_id, "toolCalls": list(map(tool_call_of, self.turn.tool_calls))}


def case_of_session(
    session_id: str, traces: Iterable[tuple[Sequence[Span], Sequence[LogRecord]]], own: OwnKeys
) -> Case:
    """Make a case of a session, with the keys that evaluators read; traces without spans are left out.

    The input is that of the first turn with one, the output that of the last; `trajectory` is the conversation, and
    `turns` what each trace added to it.
    """
    turns = _turns([trace for trace in traces if trace[0]], own)
    spoken = [turn for turn in turns if turn.case.metadata["traceSummary"].get("llmCallCount")] or turns
    lacking = _lacking(spoken)
    outputs: dict[str, Any] = {
        "output": _first_text(reversed(turns), spoken, lambda case: case.actual_outputs.get("output")),
        "toolCalls": [call for each in turns for call in each.document["toolCalls"]],
        "trajectory": Conversation(messages=tuple(one for each in turns for one in each.conversation.messages)),
        "turns": [each.document for each in turns],
    }
    for key in ("context", "retrievalContext", "reasoningSteps"):
        lists = [each.case.actual_outputs[key] for each in turns if key in each.case.actual_outputs]
        outputs[key] = [one for each in lists for one in each] if lists else None
    tools = {tool.name: tool for each in turns for tool in each.case.metadata.get("tools", ())}
    metadata: dict[str, Any] = {
        "tools": list(tools.values()) or None,
        "traceSummary": _summary(turns).model_dump(by_alias=True, exclude_none=True),
        NOT_CAPTURED: lacking or None,
        CAPTURE_HINT: next(
            (hint for each in turns if lacking and (hint := each.case.metadata.get(CAPTURE_HINT))), None
        ),
        "sessionId": session_id,
        "userId": next((user for each in turns if (user := each.case.metadata.get("userId"))), None),
        "turnCount": len(turns),
    }
    text = _first_text(turns, spoken, lambda case: case.inputs.get("input"))
    outputs = {key: value for key, value in outputs.items() if key not in lacking}
    inputs = {} if "input" in lacking else {"input": text}
    return Case(inputs=_without_none(inputs), actual_outputs=_without_none(outputs), metadata=_without_none(metadata))


def _first_text(
    turns: Iterable[_CaseTurn], spoken: Sequence[_CaseTurn], text_of: Callable[[Case], str | None]
) -> str | None:
    counted = set(map(id, spoken))
    texts = ((turn, text_of(turn.case)) for turn in turns)
    return next((text for turn, text in texts if text is not None and (text.strip() or id(turn) in counted)), None)


def _turns(traces: Sequence[tuple[Sequence[Span], Sequence[LogRecord]]], own: OwnKeys) -> list[_CaseTurn]:
    readings = [(read_trace(spans, logs, own), spans) for spans, logs in traces]
    cases = {spans[0].trace_id: case_of_trace(reading, spans) for reading, spans in readings}
    traces_read = [session_trace(_named(spans), reading, ()) for reading, spans in readings]
    return [
        _CaseTurn(cases[turn.trace.summary.trace_id], turn, _conversation(turn))
        for turn in session_conversation(traces_read)
    ]


def _conversation(turn: SessionTurn) -> Conversation:
    return conversation_of(turn.messages).with_calls(tuple(map(tool_call_of, turn.tool_calls)))


def _named(spans: Sequence[Span]) -> TraceSummary:
    """Return a summary of a trace with its names and times; its errors are not counted."""
    first = min(spans, key=lambda span: (span.start_ns, span.span_id))
    ends = [span.end_ns for span in spans if span.end_ns is not None]
    return TraceSummary(
        trace_id=first.trace_id,
        tenant=first.tenant,
        project=first.project,
        service_name=first.service_name,
        root_name=first.name,
        start_ns=first.start_ns,
        end_ns=max(ends, default=None),
        span_count=len(spans),
        error_count=0,
        expires_at_ns=0,
    )


def _summary(turns: Sequence[_CaseTurn]) -> RunSummary:
    """Sum up the session: the sums of its traces, each tool call once."""
    ran = [RunSummary.model_validate(each.case.metadata["traceSummary"]) for each in turns]
    calls = [call for each in turns for call in each.turn.tool_calls]
    names = [call.name for call in calls]
    is_known = all(one.event_count is not None for one in ran)
    used = [one.token_usage for one in ran if one.token_usage is not None]
    tokens = TokenUsage(
        input=_sum(one.input for one in used),
        output=_sum(one.output for one in used),
        cached=_sum(one.cached for one in used),
    )
    return RunSummary(
        event_count=len(names) if is_known else None,
        tool_names=tuple(sorted(set(names))) if is_known else None,
        tool_calls_by_name=dict(Counter(names)) if is_known else None,
        error_count=sum(call.is_error for call in calls) if is_known else None,
        llm_call_count=_sum(one.llm_call_count for one in ran),
        token_usage=tokens if used else None,
        cost_usd=_sum(one.cost_usd for one in ran),
        duration_ms=_sum(one.duration_ms for one in ran),
    )


def _sum(amounts: Iterable[_Amount | None]) -> _Amount | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], known[0]) if known else None


def _lacking(spoken: Sequence[_CaseTurn]) -> list[str]:
    """Return the keys that turns with LLM calls did not record.

    `input` counts in the first turn, `output` in the last, any other key in each. Tools are known if any turn
    recorded them.
    """
    each = [set(turn.case.metadata.get(NOT_CAPTURED, ())) for turn in spoken]
    if not each:
        return []
    lacking = set.union(*each) - {"input", "output", "tools"}
    lacking |= (each[0] & {"input"}) | (each[-1] & {"output"}) | (set.intersection(*each) & {"tools"})
    return sorted(lacking)


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
