"""The meaning of a trace: its calls, its conversation, its answer, and its usage."""

import json
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, TypeAlias

from collector.conventions.agent_logs import CallEnds
from collector.conventions.calls import all_calls
from collector.conventions.definitions import once_by_name
from collector.conventions.doubles import doubled
from collector.conventions.feedback import is_feedback, is_state, question_of
from collector.conventions.member import TraceMember, member_of
from collector.conventions.messages import answer_text, tool_request, wordless_answer
from collector.conventions.names import PENDING
from collector.conventions.own_keys import OwnKeys
from collector.conventions.pieces import parts_by_type
from collector.conventions.span import read_span
from collector.conventions.tree import Tree, tree_of
from collector.conventions.unanswered import ANSWERING, BLANKS, output_beside, unanswered
from collector.conventions.usage_records import recorded
from collector.conventions.values import as_list
from collector.conventions.wrapping import last_steps, repeating
from storage.records import MAX_COUNT, JsonValue, LogRecord, Message, OfferedTool, Span, SpanReading, TraceReading

_TALKING = ("llm", "agent", "chain")
_AROUND = ("agent", "chain")

_Side: TypeAlias = Literal["input_tokens", "output_tokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """Values of a trace from all of its spans, except its calls of tools."""

    input: str | None
    output: str | None
    final_response: str | None
    finish_reason: str | None
    session_id: str | None
    user_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None


def read_trace(spans: Sequence[Span], logs: Sequence[LogRecord], own: OwnKeys) -> TraceReading:
    """Read the spans and log records of one trace; never raises, whatever they hold."""
    logs_by_span: dict[str, list[LogRecord]] = {}
    ends = CallEnds(logs)
    for log in logs:
        logs_by_span.setdefault(log.span_id, []).append(log)
    readings: dict[str, SpanReading] = {}
    members: list[TraceMember] = []
    for span in sorted(
        (span for span in spans if not _is_pending(span)), key=lambda span: (span.start_ns, span.span_id)
    ):
        if span.span_id not in readings:
            own_logs = logs_by_span.get(span.span_id, [])
            reading = read_span(span, own_logs, own)
            key = span.tenant, span.trace_id, span.span_id
            if reading.span_type == "tool" and (beside := ends.beside(key, reading.tool_call_id)):
                reading = read_span(span, [*own_logs, *beside], own)
            readings[span.span_id] = reading
            members.append(member_of(span, reading))
    announced = {span.span_id: read_span(span, (), own) for span in spans if _is_pending(span)}
    tree = tree_of(members)
    sums = sums_of_tree(tree)
    calls = all_calls(tree)
    return TraceReading(
        spans=announced | readings,
        input=sums.input,
        output=sums.output,
        final_response=sums.final_response,
        finish_reason=sums.finish_reason,
        conversation=conversation_of(tree),
        tool_calls=calls.own,
        earlier_calls=calls.earlier,
        tool_definitions=definitions_of(tree),
        session_id=sums.session_id,
        user_id=sums.user_id,
        input_tokens=sums.input_tokens,
        output_tokens=sums.output_tokens,
        cost_usd=sums.cost_usd,
    )


def sums_of_tree(tree: Tree) -> Sums:
    """Sum up the spans of one trace, without its calls of tools."""
    root = tree.root()
    used = _Used(tree)
    lack = unanswered(tree)
    final_response = None if lack else _final_response(tree, root)
    return Sums(
        input=_input_of(tree, root),
        output=output_beside(tree, root, lack) if lack else _output_of(tree, root, final_response),
        final_response=final_response,
        finish_reason=_finish_reason(tree),
        session_id=_first(tree, root, "session_id"),
        user_id=_first(tree, root, "user_id"),
        input_tokens=used.tokens("input_tokens"),
        output_tokens=used.tokens("output_tokens"),
        cost_usd=used.cost_usd(),
    )


def _is_pending(span: Span) -> bool:
    return span.attributes.get(PENDING[0]) == PENDING[1]


def _input_of(tree: Tree, root: TraceMember | None) -> str | None:
    """Return the root's input, else that of the first of the topmost spans of agents, chains and models.

    Another span's input replaces a blank one and the state of a workflow. The question replaces feedback on a rejected
    answer.
    """
    if root is not None and root.input is not None and not _gives_way(root.input):
        return _question(tree, root)
    telling = [span for span in tree.spans.values() if span.span_type in _TALKING and span.input is not None]
    topmost = min(telling, key=lambda span: (_gives_way(span.input), tree.depths[span.span_id]), default=root)
    return None if topmost is None else _question(tree, topmost)


def _question(tree: Tree, span: TraceMember) -> str | None:
    if span.input is None or not is_feedback(span.input):
        return span.input
    others = (one.input for one in tree.spans.values() if one.span_type in _TALKING and not _gives_way(one.input))
    return question_of(span) or next((text for text in others if text and not is_feedback(text)), span.input)


def _gives_way(text: str | None) -> bool:
    return text is None or _is_blank(text) or is_state(text)


def _output_of(tree: Tree, root: TraceMember | None, final_response: str | None) -> str | None:
    """Return the output of a trace, which is shown and judged: that of the root.

    If the root has none, or is one of several top spans, use the last of the topmost spans of agents, chains and models
    with an output. The final response replaces an output that is blank, whose messages have no text, or that differs
    from it only in the blanks around it. An answer that began after a model's request for tools replaces the text of
    that request, at any depth.
    """
    telling = root if root is not None and root.output is not None and not _is_step(tree, root) else None
    if telling is None:
        talking = [span for span in tree.spans.values() if span.span_type in _TALKING and span.output is not None]
        telling = min(reversed(talking), key=lambda span: tree.depths[span.span_id], default=root)
    if telling is not None and (request := _request_of(tree, telling)) is not None:
        telling = _answer_after(tree, request) or telling
    if telling is None or telling.output is None:
        return final_response
    if final_response is None:
        return _words_beside(tree, telling) if _is_blank(telling.output) else telling.output
    is_wordless = bool(telling.answered) and answer_text(telling.output_messages) is None
    is_alike = telling.output.strip(BLANKS) == final_response.strip(BLANKS)
    return final_response if is_wordless or is_alike or _gives_way(telling.output) else telling.output


def _request_of(tree: Tree, span: TraceMember) -> TraceMember | None:
    """Return the model's span that requested the tools in a span's output: itself, or the last with this text."""
    words = tool_request(span.output_messages)
    if words is None or span.span_type == "llm":
        return None if words is None else span
    requests = (each for each in reversed(tree.spans.values()) if each.span_type == "llm")
    return next((each for each in requests if tool_request(each.output_messages) == words), None)


def _answer_after(tree: Tree, request: TraceMember) -> TraceMember | None:
    """Return the last of the topmost answers that began after a request for tools had ended."""
    until_ns = max(request.start_ns, request.end_ns or 0)
    answers = [
        span
        for span in tree.spans.values()
        if span.span_type in _TALKING
        and span is not request
        and span.start_ns >= until_ns
        and answer_text(span.output_messages) is not None
        and tool_request(span.output_messages) is None
    ]
    return min(reversed(answers), key=lambda span: tree.depths[span.span_id]) if answers else None


def _words_beside(tree: Tree, blank: TraceMember) -> str | None:
    talking = [span for span in tree.spans.values() if span.span_type in _TALKING and not _is_blank(span.output)]
    return min(reversed(talking), key=lambda span: tree.depths[span.span_id], default=blank).output


def _is_blank(text: str | None) -> bool:
    return text is None or not text.strip(BLANKS)


def _is_step(tree: Tree, root: TraceMember) -> bool:
    is_around = root.parent_span_id is None and root.span_type in _AROUND
    return not is_around and len(tree.roots()) > 1


def _final_response(tree: Tree, root: TraceMember | None) -> str | None:
    """Return a model's last text; without one, that of an agent or a chain, then of a span of kind `other`.

    Else return the root's output, unless it was made from messages, which have no last text then. If the last answer of
    a group of kinds is blank, its earlier ones do not count: the result is blank unless another group has a text. If
    the last answer requests tools without a text, such as the tool that submits the answer, texts that come with an
    earlier request do not count.
    """
    blank = None
    for kinds in ANSWERING:
        has_request = False
        for span in reversed(tree.spans.values()):
            if span.span_type in kinds:
                text = answer_text(span.output_messages)
                request = tool_request(span.output_messages)
                if text is not None and not (has_request and request is not None):
                    return text
                has_request = has_request or request is not None
                if (
                    span.output is not None
                    and _is_blank(span.output)
                    and wordless_answer(span.output_messages) is not None
                ):
                    blank = span.output if blank is None else blank
                    break
    is_bare = root is not None and root.span_type in _TALKING and not root.answered
    bare = root.output if root is not None and is_bare else None
    return blank if _is_blank(bare) and blank is not None else bare


def _finish_reason(tree: Tree) -> str | None:
    """Return the last finish reason of a model; else of an agent or a chain, then of a span of kind `other`."""
    for kinds in ANSWERING:
        for span in reversed(tree.spans.values()):
            if span.span_type in kinds and span.finish_reason is not None:
                return span.finish_reason
    return None


def conversation_of(tree: Tree) -> tuple[Message, ...]:
    """Return the longest conversation of one span; of equally long ones the last, with all answers to its question."""
    longest: tuple[Message, ...] = ()
    teller: TraceMember | None = None
    for span in tree.spans.values():
        messages = speaking(span)
        if messages and len(messages) >= len(longest):
            longest, teller = messages, span
    return _with_requests(tree, longest if teller is None else talk_of(tree, teller))


def talk_of(tree: Tree, span: TraceMember) -> tuple[Message, ...]:
    """Return the conversation of a span, with the answers of parallel calls that had the same input."""
    alike = [one for one in tree.spans.values() if one.span_type == "llm" and _is_parallel(span, one)]
    alike = [one for one in alike if one.output_messages]
    wrappers = repeating(tree, [one.span_id for one in alike])
    if len(alike) < 2 or span not in alike or span.span_id in wrappers:  # noqa: PLR2004 - a pair
        return speaking(span)
    calls = doubled(tree)
    tellers = {calls.get(span.span_id, span.span_id): span}
    for one in alike:
        if one.span_id not in wrappers:
            tellers.setdefault(calls.get(one.span_id, one.span_id), one)
    shown = {one.span_id for one in tellers.values()}
    answers = _once_each(one for one in alike if one.span_id in shown)
    return _talk(tuple(span.input_messages or ()), tuple(answers))


def _is_parallel(span: TraceMember, other: TraceMember) -> bool:
    ends = [one.end_ns or one.start_ns for one in (span, other)]
    is_together = other.start_ns < ends[0] and span.start_ns < ends[1]
    return is_together and span.input_messages == other.input_messages


def _once_each(spans: Iterable[TraceMember]) -> Iterator[Message]:
    """Yield the messages of answers; spans with equal answers are about one call."""
    known: set[str] = set()
    for span in spans:
        key = json.dumps([[one.get("role"), one.get("parts")] for one in span.output_messages or ()], sort_keys=True)
        if key not in known:
            known.add(key)
            yield from span.output_messages or ()


def _with_requests(tree: Tree, messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Add to a conversation the calls whose results it has; OpenLIT omits them in the model's input.

    The model's own answer, on an earlier span, has them.
    """
    requested = {part.get("id") for message in messages for part in parts_by_type(message, "tool_call")}
    results = {part.get("id") for message in messages for part in parts_by_type(message, "tool_call_response")}
    lacking = results - requested - {None}
    answers = (message for span in tree.spans.values() if lacking for message in span.output_messages or ())
    calls = {
        call["id"]: call
        for answer in answers
        for call in parts_by_type(answer, "tool_call")
        if call.get("id") in lacking
    }
    joined: list[Message] = []
    for message in messages if calls else ():
        ids = [part.get("id") for part in parts_by_type(message, "tool_call_response")]
        added: list[JsonValue] = [calls.pop(one) for one in ids if one in calls]
        if added:
            at = next((at for at in range(len(joined), 0, -1) if joined[at - 1]["role"] != "tool"), 0)
            if at and joined[at - 1]["role"] == "assistant":
                joined[at - 1] = {**joined[at - 1], "parts": [*as_list(joined[at - 1]["parts"]), *added]}
            else:
                joined.insert(at, {"role": "assistant", "parts": added})
        joined.append(message)
    return tuple(joined) or messages


def speaking(reading: SpanReading | TraceMember) -> tuple[Message, ...]:
    """Return the conversation of one span: empty unless it is an agent, a chain or a model."""
    if reading.span_type not in _TALKING:
        return ()
    return _talk(tuple(reading.input_messages or ()), tuple(reading.output_messages or ()))


def _talk(prompt: tuple[Message, ...], answered: tuple[Message, ...]) -> tuple[Message, ...]:
    """Join input and output; if the output contains the input, as the state of a graph does, return it alone."""
    if not 0 < len(prompt) < len(answered):
        return (*prompt, *answered)
    keys = [json.dumps([one.get("role"), one.get("parts")], sort_keys=True) for one in prompt]
    answered_keys = [json.dumps([one.get("role"), one.get("parts")], sort_keys=True) for one in answered]
    places = range(len(answered_keys) - len(keys) + 1)
    is_within = any(answered_keys[place : place + len(keys)] == keys for place in places)
    return answered if is_within else (*prompt, *answered)


def definitions_of(tree: Tree) -> tuple[OfferedTool, ...]:
    """Return the tools that models were offered, each name once."""
    return once_by_name(definition for span in tree.spans.values() for definition in span.tool_definitions)


def _first(tree: Tree, root: TraceMember | None, field: str) -> str | None:
    spans = ([root] if root else []) + list(tree.spans.values())
    texts: Iterable[str | None] = (getattr(span, field) for span in spans)
    return next((text for text in texts if text is not None), None)


class _Used:
    """Usage of model calls. Only spans without usage below them count: a span above repeats theirs, or sums it up.

    A call that several spans report counts once, with the highest usage among them.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._doubled, self._records = doubled(tree), recorded(tree)

    def tokens(self, side: _Side) -> int | None:
        """Add up the tokens of one side."""
        counts = [max(int(getattr(span, side)) for span in spans) for spans in self._calls(side)]
        return sum(counts) if counts and sum(counts) <= MAX_COUNT else None

    def cost_usd(self) -> float | None:
        """Add up costs; if the trace has any reported cost, computed ones do not count."""
        spans = self._tree.spans.items()
        recorded = {span_id for span_id, span in spans if span.cost_usd is not None and span.cost_source is None}
        costs = [max(spans, key=_completeness).cost_usd or 0.0 for spans in self._calls("cost_usd", recorded)]
        return sum(costs) if costs else None

    def _calls(self, field: str, among: AbstractSet[str] = frozenset()) -> Iterable[list[TraceMember]]:
        """Yield the spans of each call that have an amount; with `among`, only these spans count."""
        amounts: dict[str, float] = {
            span_id: amount
            for span_id, span in self._tree.spans.items()
            if (not among or span_id in among) and (amount := getattr(span, field)) is not None
        }
        if not amounts:
            return ()
        for span_id in last_steps(self._tree, amounts):
            del amounts[span_id]
        wrappers = repeating(self._tree, amounts)
        counted_elsewhere = wrappers | amounts.keys()
        calls: dict[str, list[TraceMember]] = {}
        for span_id in amounts:
            if span_id not in wrappers and self._records.get(span_id) not in counted_elsewhere:
                calls.setdefault(self._doubled.get(span_id, span_id), []).append(self._tree.spans[span_id])
        return calls.values()


def _completeness(span: TraceMember) -> tuple[float, ...]:
    return (span.input_tokens or 0) + (span.output_tokens or 0), span.cached_tokens or 0, span.cost_usd or 0.0
