"""The tool calls of a trace, each once: told by tools' own spans, by models' messages, or by both.

A call that only the first input of a turn has was requested in an earlier trace, and is counted there.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from collector.conventions import unwrap
from collector.conventions.asked import MessageCall, Requests, requested_within, requests_of
from collector.conventions.call_ids import given
from collector.conventions.pairing import ReportedRun, is_unsaid, pair, pair_across_ids
from collector.conventions.parts import Part
from collector.conventions.pieces import parts_by_type
from collector.conventions.runs_beside import Beside
from collector.conventions.tree import Tree
from collector.conventions.values import canonical, text_of
from collector.conventions.wrapping import same_work
from storage.records import JsonValue, TraceToolCall

_Order = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCalls:
    """The calls of a trace, and those that it was sent."""

    own: tuple[TraceToolCall, ...] = ()
    earlier: tuple[TraceToolCall, ...] = ()  # requested in earlier traces, with the results that this one was sent
    latest: tuple[TraceToolCall, ...] = ()  # those of them with an id whose results no earlier trace was sent


def tool_calls(tree: Tree) -> tuple[TraceToolCall, ...]:
    """Every call of the trace once, by start time; what runs within a tool comes after it."""
    return all_calls(tree).own


def all_calls(tree: Tree) -> ToolCalls:
    """The calls of the trace, and those of earlier traces."""
    if not any(
        span.span_type == "tool" or span.has_called_tools or span.has_asked_for_tools for span in tree.spans.values()
    ):
        return ToolCalls()
    runs = _runs(tree)
    requests = requests_of(tree)
    left = pair(tree, runs, requests.asked)
    _share(runs)
    left = pair_across_ids(tree, runs, left)
    within, earlier = _of_history(tree, runs, requests) if requests.history else ([], [])
    left += within
    starts = _starts(tree, runs)
    failed = _failed_below(tree)
    found: list[tuple[_Order, ReportedRun | MessageCall]] = [
        (starts[run.span.span_id], run) for run in sorted(runs, key=_place_in_answer)
    ]
    found += [((call.known_ns, 0), call) for call in left]
    found.sort(key=lambda one: one[0])  # stable: with equal starts, as they were asked for
    own = (
        _of_asked(ordinal, one) if isinstance(one, MessageCall) else _of_run(ordinal, one, failed.get(one.span.span_id))
        for ordinal, (_, one) in enumerate(found)
    )
    if not earlier:
        return ToolCalls(own=tuple(own))
    sent = [(_of_asked(ordinal, one), one) for ordinal, one in enumerate(earlier)]
    return ToolCalls(
        own=tuple(own),
        earlier=tuple(call for call, _ in sent),
        latest=tuple(
            call
            for call, one in sent
            if call.call_id is not None and (call.has_result or call.is_error) and _is_latest(tree, one)
        ),
    )


def _of_history(tree: Tree, runs: list[ReportedRun], requests: Requests) -> tuple[list[MessageCall], list[MessageCall]]:
    """Give runs their calls among what models were sent; return the others, of this trace and of earlier ones."""
    unasked = [run for run in runs if run.asked is None and run.call_id is None and not run.is_ambiguous]
    untold = _untold(pair(tree, unasked, requests.history, is_history=True), runs, requests.asked)
    _place(runs, requests.history)
    untold = pair_across_ids(tree, runs, untold, is_history=True)
    _share(runs)
    within = requested_within(tree, untold)
    here = set(map(id, within))
    return within, [call for call in untold if id(call) not in here]


def call_key(call: TraceToolCall) -> bytes:
    """Return what a call and its repetition share: applications may number the calls of each turn anew."""
    text = json.dumps([call.call_id, call.name, call.arguments], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _is_latest(tree: Tree, call: MessageCall) -> bool:
    """Return whether the result of a call stands behind all answers of the model in what a span was sent."""
    for message in reversed(tree.spans[call.span_id].input_messages or ()):
        if message["role"] == "assistant":
            return False
        if any(part is call.response for part in parts_by_type(message, "tool_call_response")):
            return True
    return False


def _runs(tree: Tree) -> list[ReportedRun]:
    """List the executions of tools by start; one that several libraries report, within or beside each other, once.

    A call id does not make two executions one: a tool is executed again under the same id.
    """
    found: dict[str, ReportedRun] = {}
    beside = Beside()
    for span_id, span in sorted(tree.spans.items(), key=lambda item: tree.depths[item[0]]):
        if span.span_type != "tool":
            continue
        key = None if span.tool_arguments is None else canonical(span.tool_arguments)
        run = ReportedRun(span=span, key=key, call_id=given(span.tool_call_id))
        same = _around(tree, found, run) or beside.of(run)
        if same is not None and not same.is_over_before(run):
            same.learn(run)
            continue
        if same is not None:
            run.learn_call(same)
        found[span_id] = run
        beside.add(run)
    return sorted(found.values(), key=lambda run: run.span.start_ns)


def _around(tree: Tree, found: Mapping[str, ReportedRun], run: ReportedRun) -> ReportedRun | None:
    """Return the execution that a span within it reports again."""
    outer = next((found[one] for one in same_work(tree, run.span.span_id, _MAX_ABOVE) if one in found), None)
    if outer is not None and _is_same(outer, run):
        return outer
    if not run.span.tool_call_id:
        return None
    above = (found[one] for one in tree.above(run.span.span_id, _MAX_ABOVE) if one in found)
    return next((one for one in above if _mark(one) == _mark(run)), None)


def _mark(run: ReportedRun) -> tuple[str | None, str | None, str | None]:
    return run.call_id, run.span.tool_name, run.key


_MAX_ABOVE = 64  # a guess: spans between a tool's span and that of another instrumentation of the same call


def _is_same(outer: ReportedRun, inner: ReportedRun) -> bool:
    if outer.span.tool_name != inner.span.tool_name:
        return False
    if outer.call_id is not None and inner.call_id is not None:
        return outer.call_id == inner.call_id
    return outer.key == inner.key or outer.key is None or inner.key is None


def _untold(history: list[MessageCall], runs: list[ReportedRun], asked: list[MessageCall]) -> list[MessageCall]:
    """The calls of the history that nothing else can be telling of."""
    ids = {run.call_id for run in runs} | {call.call_id for call in asked}
    nameless = {(run.span.tool_name, run.key) for run in runs if run.call_id is None}
    nameless |= {(run.span.tool_name, None) for run in runs if run.call_id is None and run.key is None}
    nameless |= {(call.name, call.key) for call in asked if call.call_id is None}
    return [
        call
        for call in history
        if (call.call_id is None or call.call_id not in ids)
        and (call.name, call.key) not in nameless
        and (call.name, None) not in nameless
    ]


def _share(runs: list[ReportedRun]) -> None:
    """Give further executions of a call the request of the first one, and its response to the last one alone."""
    latest: dict[tuple[str | None, str | None, str | None], ReportedRun] = {}
    for run in runs:
        if run.call_id is None:
            continue
        before = latest.get(_mark(run))
        if run.asked is None and before is not None and before.asked is not None:
            run.asked, run.is_again = before.asked, True
            before.asked = replace(before.asked, response=None)
        latest[_mark(run)] = run


def _place(runs: list[ReportedRun], history: list[MessageCall]) -> None:
    """Give runs that no answer asked for, and that have an id, the call of it among what models were sent."""
    waiting = [run for run in runs if run.asked is None and run.call_id is not None]
    if waiting and history:
        by_id = {(call.call_id, call.name): call for call in history}
        for run in waiting:
            run.asked = by_id.pop((run.call_id, run.span.tool_name or ""), None)


def _starts(tree: Tree, runs: list[ReportedRun]) -> dict[str, _Order]:
    """When each run started, not before the run that it is in: clocks of two processes disagree."""
    own = _own_starts(runs)
    starts: dict[str, _Order] = {}
    for run in sorted(runs, key=lambda run: tree.depths[run.span.span_id]):
        outer = next((starts[above] for above in tree.above(run.span.span_id, _MAX_ABOVE) if above in starts), None)
        start = (own[run.span.span_id], 0)
        starts[run.span.span_id] = start if outer is None else max(start, (outer[0], outer[1] + 1))
    return starts


def _own_starts(runs: list[ReportedRun]) -> dict[str, int]:
    """When each run started; those that one answer asked for are in the order of the answer, whichever was first.

    Which of two parallel calls starts first is up to the scheduler. A call that is executed again is later.
    """
    starts = {run.span.span_id: run.span.start_ns for run in runs}
    answers: dict[str, list[ReportedRun]] = {}
    for run in runs:
        if run.asked is not None and not run.is_again:
            answers.setdefault(run.asked.span_id, []).append(run)
    for together in answers.values():
        moments = sorted(run.span.start_ns for run in together)
        for moment, run in zip(moments, sorted(together, key=_place_in_answer), strict=True):
            starts[run.span.span_id] = moment
    return starts


def _place_in_answer(run: ReportedRun) -> int:
    return run.asked.place if run.asked is not None else 0


def _failed_below(tree: Tree) -> dict[str, str]:
    """How the execution of a tool failed that has a span of its own below the tool's."""
    found: dict[str, str] = {}
    for span in tree.spans.values():
        parent = tree.parents[span.span_id]
        failure = span.error or span.error_type
        if span.span_type == "chain" and failure is not None and parent is not None:
            found.setdefault(parent, failure)
    return found


def _of_run(ordinal: int, run: ReportedRun, failure: str | None) -> TraceToolCall:
    span, asked = run.span, run.asked
    arguments, result = span.tool_arguments, span.tool_result
    if asked is not None and not isinstance(arguments, dict | list) and asked.arguments is not None:
        arguments = asked.arguments
    is_error, error = span.error is not None or span.error_type is not None, span.error or span.error_type
    has_result = span.has_result
    if asked is not None and asked.response is not None:
        is_captured = "response" in asked.response
        is_marked = asked.response.get("is_error") is True
        if not is_error and (is_unsaid(result) or is_marked):
            is_error, error = _failure(asked.response)
        result = asked.response.get("response") if is_unsaid(result) else result
        has_result = has_result or is_captured
    if is_unsaid(result) and not is_error and failure is not None:
        is_error, error = True, failure
    return TraceToolCall(
        ordinal=ordinal,
        span_id=span.span_id,
        call_id=given(run.call_id),
        name=span.tool_name or (asked.name if asked else ""),
        arguments=arguments,
        result=result,
        has_arguments=arguments is not None,
        has_result=has_result,
        is_error=is_error,
        error=error,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
    )


def _of_asked(ordinal: int, asked: MessageCall) -> TraceToolCall:
    is_error, error = _failure(asked.response)
    return TraceToolCall(
        ordinal=ordinal,
        span_id=asked.span_id,
        call_id=given(asked.call_id),
        name=asked.name,
        arguments=asked.arguments,
        result=asked.response.get("response") if asked.response else None,
        has_arguments=asked.arguments is not None,
        has_result=asked.response is not None and "response" in asked.response,
        is_error=is_error,
        error=error,
        start_ns=asked.known_ns,
        end_ns=None,
    )


def _failure(response: Part | None) -> tuple[bool, str | None]:
    if response is None:
        return False, None
    result: JsonValue = response.get("response")
    if unwrap.is_failure(result, is_error=response.get("is_error")):
        return True, text_of(result)
    return False, None
