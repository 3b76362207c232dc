"""The tool calls of a trace, each once: from tools' own spans, from models' messages, or from both.

A call that occurs in nothing but the first input of a turn was requested in an earlier trace, and is counted there.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from collector.conventions import unwrap
from collector.conventions.call_ids import given
from collector.conventions.message_calls import MessageCall, Requests, requested_within, requests_of
from collector.conventions.pairing import ReportedRun, is_blank_result, pair, pair_across_ids
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
    """The calls of a trace, and those in its inputs."""

    own: tuple[TraceToolCall, ...] = ()
    earlier: tuple[TraceToolCall, ...] = ()  # requested in earlier traces, as found in inputs of this one
    latest: tuple[TraceToolCall, ...] = ()  # those in `earlier` with an id and a result that is new here


def tool_calls(tree: Tree) -> tuple[TraceToolCall, ...]:
    """Return every call of the trace once, by start time; calls within a tool come after it."""
    return all_calls(tree).own


def all_calls(tree: Tree) -> ToolCalls:
    """Return the calls of the trace, and those of earlier traces."""
    if not any(
        span.span_type == "tool" or span.has_tools_in_output or span.has_tools_in_input for span in tree.spans.values()
    ):
        return ToolCalls()
    runs = _runs(tree)
    requests = requests_of(tree)
    left = pair(tree, runs, requests.requests)
    _share(runs)
    left = pair_across_ids(tree, runs, left)
    within, earlier = _of_history(tree, runs, requests) if requests.history else ([], [])
    left += within
    starts = _starts(tree, runs)
    failed = _failed_below(tree)
    ordered: list[tuple[_Order, ReportedRun | MessageCall]] = [
        (starts[run.span.span_id], run) for run in sorted(runs, key=_place_in_answer)
    ]
    ordered += [((call.known_ns, 0), call) for call in left]
    ordered.sort(key=lambda one: one[0])  # stable: with equal starts, in the order of the requests
    own = (
        _of_request(ordinal, one)
        if isinstance(one, MessageCall)
        else _of_run(ordinal, one, failed.get(one.span.span_id))
        for ordinal, (_, one) in enumerate(ordered)
    )
    if not earlier:
        return ToolCalls(own=tuple(own))
    sent = [(_of_request(ordinal, one), one) for ordinal, one in enumerate(earlier)]
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
    """Pair runs with calls in models' inputs; return the calls left over, of this trace and of earlier traces."""
    unasked = [run for run in runs if run.request is None and run.call_id is None and not run.is_ambiguous]
    untold = _unreported(pair(tree, unasked, requests.history, is_history=True), runs, requests.requests)
    _place(runs, requests.history)
    untold = pair_across_ids(tree, runs, untold, is_history=True)
    _share(runs)
    within = requested_within(tree, untold)
    here = set(map(id, within))
    return within, [call for call in untold if id(call) not in here]


def call_key(call: TraceToolCall) -> bytes:
    """Return a digest of a call, equal for its repetitions. An id is not enough: it may be reused in each turn."""
    text = json.dumps([call.call_id, call.name, call.arguments], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _is_latest(tree: Tree, call: MessageCall) -> bool:
    """Return whether the result of a call comes after the last message of the assistant in the span's input."""
    for message in reversed(tree.spans[call.span_id].input_messages or ()):
        if message["role"] == "assistant":
            return False
        if any(part is call.response for part in parts_by_type(message, "tool_call_response")):
            return True
    return False


def _runs(tree: Tree) -> list[ReportedRun]:
    """List the executions of tools by start. Nested or sibling spans of several libraries may report one execution.

    An equal call id does not prove that: a tool that is executed again keeps the id.
    """
    runs: dict[str, ReportedRun] = {}
    beside = Beside()
    for span_id, span in sorted(tree.spans.items(), key=lambda item: tree.depths[item[0]]):
        if span.span_type != "tool":
            continue
        key = None if span.tool_arguments is None else canonical(span.tool_arguments)
        run = ReportedRun(span=span, key=key, call_id=given(span.tool_call_id))
        same = _around(tree, runs, run) or beside.of(run)
        if same is not None and not same.is_over_before(run):
            same.learn(run)
            continue
        if same is not None:
            run.learn_call(same)
        runs[span_id] = run
        beside.add(run)
    return sorted(runs.values(), key=lambda run: run.span.start_ns)


def _around(tree: Tree, known: Mapping[str, ReportedRun], run: ReportedRun) -> ReportedRun | None:
    """Return the run of an enclosing span if `run` reports the same execution, else None."""
    outer = next((known[one] for one in same_work(tree, run.span.span_id, _MAX_ABOVE) if one in known), None)
    if outer is not None and _is_same(outer, run):
        return outer
    if not run.span.tool_call_id:
        return None
    above = (known[one] for one in tree.above(run.span.span_id, _MAX_ABOVE) if one in known)
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


def _unreported(history: list[MessageCall], runs: list[ReportedRun], requests: list[MessageCall]) -> list[MessageCall]:
    """Return the calls of the history that neither a run nor a model's answer has."""
    ids = {run.call_id for run in runs} | {call.call_id for call in requests}
    nameless = {(run.span.tool_name, run.key) for run in runs if run.call_id is None}
    nameless |= {(run.span.tool_name, None) for run in runs if run.call_id is None and run.key is None}
    nameless |= {(call.name, call.key) for call in requests if call.call_id is None}
    return [
        call
        for call in history
        if (call.call_id is None or call.call_id not in ids)
        and (call.name, call.key) not in nameless
        and (call.name, None) not in nameless
    ]


def _share(runs: list[ReportedRun]) -> None:
    """Give each further execution of a call the request of the first. Only the last one keeps the response."""
    latest: dict[tuple[str | None, str | None, str | None], ReportedRun] = {}
    for run in runs:
        if run.call_id is None:
            continue
        before = latest.get(_mark(run))
        if run.request is None and before is not None and before.request is not None:
            run.request, run.is_again = before.request, True
            before.request = replace(before.request, response=None)
        latest[_mark(run)] = run


def _place(runs: list[ReportedRun], history: list[MessageCall]) -> None:
    """Pair each run that has a call id, but no request, with the call of this id in a model's input."""
    waiting = [run for run in runs if run.request is None and run.call_id is not None]
    if waiting and history:
        by_id = {(call.call_id, call.name): call for call in history}
        for run in waiting:
            run.request = by_id.pop((run.call_id, run.span.tool_name or ""), None)


def _starts(tree: Tree, runs: list[ReportedRun]) -> dict[str, _Order]:
    """Return the start of each run, never before that of an enclosing run, because clocks of processes differ."""
    own = _own_starts(runs)
    starts: dict[str, _Order] = {}
    for run in sorted(runs, key=lambda run: tree.depths[run.span.span_id]):
        outer = next((starts[above] for above in tree.above(run.span.span_id, _MAX_ABOVE) if above in starts), None)
        start = (own[run.span.span_id], 0)
        starts[run.span.span_id] = start if outer is None else max(start, (outer[0], outer[1] + 1))
    return starts


def _own_starts(runs: list[ReportedRun]) -> dict[str, int]:
    """Return a start for each run: runs that one answer requested share out their starts in the order of the answer.

    Their own order means nothing: it is up to the scheduler. A repeated execution keeps its own start.
    """
    starts = {run.span.span_id: run.span.start_ns for run in runs}
    answers: dict[str, list[ReportedRun]] = {}
    for run in runs:
        if run.request is not None and not run.is_again:
            answers.setdefault(run.request.span_id, []).append(run)
    for together in answers.values():
        moments = sorted(run.span.start_ns for run in together)
        for moment, run in zip(moments, sorted(together, key=_place_in_answer), strict=True):
            starts[run.span.span_id] = moment
    return starts


def _place_in_answer(run: ReportedRun) -> int:
    return run.request.place if run.request is not None else 0


def _failed_below(tree: Tree) -> dict[str, str]:
    """Return failures of `chain` spans by the id of their parent: some libraries record a tool's execution so."""
    failures: dict[str, str] = {}
    for span in tree.spans.values():
        parent = tree.parents[span.span_id]
        failure = span.error or span.error_type
        if span.span_type == "chain" and failure is not None and parent is not None:
            failures.setdefault(parent, failure)
    return failures


def _of_run(ordinal: int, run: ReportedRun, failure: str | None) -> TraceToolCall:
    span, request = run.span, run.request
    arguments, result = span.tool_arguments, span.tool_result
    if request is not None and not isinstance(arguments, dict | list) and request.arguments is not None:
        arguments = request.arguments
    is_error, error = span.error is not None or span.error_type is not None, span.error or span.error_type
    has_result = span.has_result
    if request is not None and request.response is not None:
        is_captured = "response" in request.response
        is_marked = request.response.get("is_error") is True
        if not is_error and (is_blank_result(result) or is_marked):
            is_error, error = _failure(request.response)
        result = request.response.get("response") if is_blank_result(result) else result
        has_result = has_result or is_captured
    if is_blank_result(result) and not is_error and failure is not None:
        is_error, error = True, failure
    return TraceToolCall(
        ordinal=ordinal,
        span_id=span.span_id,
        call_id=given(run.call_id),
        name=span.tool_name or (request.name if request else ""),
        arguments=arguments,
        result=result,
        has_arguments=arguments is not None,
        has_result=has_result,
        is_error=is_error,
        error=error,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
    )


def _of_request(ordinal: int, request: MessageCall) -> TraceToolCall:
    is_error, error = _failure(request.response)
    return TraceToolCall(
        ordinal=ordinal,
        span_id=request.span_id,
        call_id=given(request.call_id),
        name=request.name,
        arguments=request.arguments,
        result=request.response.get("response") if request.response else None,
        has_arguments=request.arguments is not None,
        has_result=request.response is not None and "response" in request.response,
        is_error=is_error,
        error=error,
        start_ns=request.known_ns,
        end_ns=None,
    )


def _failure(response: Part | None) -> tuple[bool, str | None]:
    if response is None:
        return False, None
    result: JsonValue = response.get("response")
    if unwrap.is_failure(result, is_error=response.get("is_error")):
        return True, text_of(result)
    return False, None
