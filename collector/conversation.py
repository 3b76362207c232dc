"""A session as one conversation: its traces as turns, each message once, with the usage and results of each turn.

Applications send the earlier messages to the model again with each turn, all of them or the last ones, with the calls
of tools or without. `session_conversation` leaves out the repeated ones. If an application sends something else in
place of the history, such as a summary of it, that is shown as sent.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from collector.conventions.calls import call_key
from storage.records import JsonValue, Message, TraceReading, TraceSummary, TraceToolCall

if TYPE_CHECKING:
    from storage.judging.judgements import StoredEvaluation  # which loads DuckDB, for the process that makes test cases

_SPEAKING: Final = ("user", "assistant")
_Key = bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTrace:
    """The facts about one trace that a conversation needs. None: unknown."""

    summary: TraceSummary
    conversation: Sequence[Message]  # of its spans, with history and answer
    tool_calls: Sequence[TraceToolCall]
    earlier_calls: Sequence[TraceToolCall]  # in its inputs; calls of earlier traces, not its own
    executions: AbstractSet[str]  # the spans of tools themselves
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    evaluations: "Sequence[StoredEvaluation]"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTurn:
    """A trace's part of a conversation."""

    trace: SessionTrace
    messages: Sequence[Message]  # new in this turn
    tool_calls: Sequence[TraceToolCall]  # new in this turn
    evaluations: "Sequence[StoredEvaluation]"  # those that count
    cost_so_far_usd: float | None  # of this turn and those before; None while unknown


def session_trace(
    summary: TraceSummary, reading: TraceReading, evaluations: "Sequence[StoredEvaluation]"
) -> SessionTrace:
    """Make a trace of a session from the reading of its spans."""
    return SessionTrace(
        summary=summary,
        conversation=reading.conversation or tuple(_messages_of_texts(reading)),
        tool_calls=reading.tool_calls,
        earlier_calls=reading.earlier_calls,
        executions={span_id for span_id, span in reading.spans.items() if span.span_type == "tool"},
        input_tokens=reading.input_tokens,
        output_tokens=reading.output_tokens,
        cost_usd=reading.cost_usd,
        evaluations=evaluations,
    )


def _messages_of_texts(reading: TraceReading) -> Iterator[Message]:
    for role, text in (("user", reading.input), ("assistant", reading.output)):
        if text:
            yield {"role": role, "parts": [{"type": "text", "content": text}]}


def session_conversation(
    traces: Iterable[SessionTrace], *, context: SessionTrace | None = None, cost_before_usd: float | None = None
) -> list[SessionTurn]:
    """Join the traces of one session, in any order, to a conversation.

    `context` is the trace before the first of `traces`: its messages are history to them. `cost_before_usd` is the cost
    of all earlier traces, to which the costs of the turns are added.
    """
    ordered = sorted(traces, key=lambda trace: (trace.summary.start_ns, trace.summary.trace_id))
    spoken = _SpokenMessages()
    known_calls = {call_key(call) for trace in ordered for call in trace.tool_calls if call.span_id in trace.executions}
    if context is not None:
        spoken.add(context.conversation)
        known_calls.update(call_key(call) for call in context.tool_calls)
    turns: list[SessionTurn] = []
    cost = cost_before_usd
    for trace in ordered:
        cost = trace.cost_usd if cost is None else cost + (trace.cost_usd or 0.0)
        calls = [
            call
            for call in trace.tool_calls
            if call.call_id is None or call.span_id in trace.executions or call_key(call) not in known_calls
        ]
        known_calls.update(call_key(call) for call in calls)
        turns.append(
            SessionTurn(
                trace=trace,
                messages=spoken.add(trace.conversation),
                tool_calls=calls,
                evaluations=[each for each in trace.evaluations if not each.superseded],
                cost_so_far_usd=cost,
            )
        )
    return _completed(turns)


def _completed(turns: Sequence[SessionTurn]) -> list[SessionTurn]:
    """Give calls without a result the one in a later trace's input: some clients make a trace of each request.

    Executions that cannot be distinguished stay as they are.
    """
    uses = Counter(call_key(call) for turn in turns for call in turn.tool_calls)
    later: dict[_Key, TraceToolCall] = {}
    completed: list[SessionTurn] = []
    for turn in reversed(turns):
        calls = [_with_result(call, later, uses) for call in turn.tool_calls]
        completed.append(replace(turn, tool_calls=calls))
        later |= {call_key(call): call for call in turn.trace.earlier_calls if call.has_result or call.is_error}
    return completed[::-1]


def _with_result(call: TraceToolCall, later: Mapping[_Key, TraceToolCall], uses: Mapping[_Key, int]) -> TraceToolCall:
    if call.call_id is None or call.has_result or call.is_error or not later:
        return call
    key = call_key(call)
    same = later.get(key)
    if same is None or uses[key] > 1:
        return call
    return replace(call, result=same.result, has_result=same.has_result, is_error=same.is_error, error=same.error)


class _SpokenMessages:
    """Messages of a conversation so far."""

    def __init__(self) -> None:
        self._spoken: list[_Key] = []  # messages of users and models, in order
        self._since: list[_Key] = []  # other messages after the last of these, such as calls of tools
        self._instructions: set[_Key] = set()
        self._others: set[_Key] = set()  # all other messages, such as calls of tools

    def add(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Add the messages of a trace, and return the new ones.

        The last message of a trace is never history: it is the answer, also if a user says the same thing twice.
        """
        heard = [(message, _key(message)) for message in messages]
        rest = [(message, key) for message, key in heard if not _is_instruction(message)]
        length = self._history(rest)
        unheard = [each for each in rest[:length] if not _is_spoken(each[0]) and each[1] not in self._others]
        new = [*unheard, *rest[length:]]
        kept = [(message, key) for message, key in heard if _is_instruction(message) and key not in self._instructions]
        kept = list({key: (message, key) for message, key in reversed(kept)}.values())[::-1]
        self._instructions.update(key for _, key in kept)
        for message, key in new:
            if _is_spoken(message):
                self._spoken.append(key)
                self._since = []
            else:
                self._since.append(key)
                self._others.add(key)
        return [message for message, _ in (*kept, *new)]

    def _history(self, heard: Sequence[tuple[Message, _Key]]) -> int:
        """Return how many of these messages, from the first on, are history."""
        places = [place for place, (message, _) in enumerate(heard[:-1]) if _is_spoken(message)]
        length = _overlap(self._spoken, [heard[place][1] for place in places])
        count = places[length - 1] + 1 if length else 0
        if length == 0 and self._spoken:
            return 0
        for key in self._since:
            if count < len(heard) - 1 and heard[count][1] == key:
                count += 1
        return count


def _overlap(before: Sequence[_Key], after: Sequence[_Key]) -> int:
    """Return the greatest length at which the end of one sequence is the beginning of the other, in linear time."""
    tail = before[-len(after) :] if after else ()
    borders = _borders(after)
    length = 0
    for key in tail:
        while length and (length == len(after) or after[length] != key):
            length = borders[length - 1]
        if after[length] == key:
            length += 1
    return length


def _borders(keys: Sequence[_Key]) -> list[int]:
    """Return for each beginning of a sequence the length of the longest shorter one that it also ends with."""
    borders = [0] * len(keys)
    length = 0
    for place in range(1, len(keys)):
        while length and keys[place] != keys[length]:
            length = borders[length - 1]
        if keys[place] == keys[length]:
            length += 1
        borders[place] = length
    return borders


def _key(message: Message) -> _Key:
    content: JsonValue = _texts(message) if _is_spoken(message) else message.get("parts")  # type: ignore[assignment]
    text = json.dumps([message.get("role"), content], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _texts(message: Message) -> list[str]:
    """Return the texts of a message that are not empty."""
    parts = message.get("parts")
    texts = (
        [part.get("content") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
        if isinstance(parts, list)
        else []
    )
    return [text for text in texts if isinstance(text, str) and text]


def _is_spoken(message: Message) -> bool:
    return message.get("role") in _SPEAKING and bool(_texts(message))


def _is_instruction(message: Message) -> bool:
    return message.get("role") in ("system", "developer")
