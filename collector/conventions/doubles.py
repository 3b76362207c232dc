"""Spans that tell of a call of a model again: those of another library side by side with it, and records of its use."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from collector.conventions.member import TraceMember
from collector.conventions.tree import Tree
from collector.conventions.wrapping import repeating

_Amounts: TypeAlias = tuple[int | None, int | None]  # tokens of the input and the output

MAX_NEAR = 8  # a guess: calls of as many tokens, or with one response id, in a trace that are compared with one
_TOLERANCE_NS = 50_000_000  # a guess: how much later a library that is called back can notice an end
_MAX_LATER_NS = 2_000_000_000  # a guess: how long after a call its usage is recorded; AG2 does so at once
_MAX_ALIKE = 64  # a guess: records that are compared with agents, and calls with one record
_MAX_LEVELS = 64  # a guess: spans between an agent and a call of its models


def doubled(tree: Tree) -> dict[str, str]:
    """The spans that tell a call of a model again, each with the one that tells it first.

    They are of another library, one lies within the time of the other, and both tell as many tokens, one model, and
    inputs that do not differ. Of two calls with ids of their own, neither is the other.
    """
    alike: dict[tuple[int, int], list[TraceMember]] = {}
    for span in tree.spans.values():
        if span.span_type == "llm" and span.input_tokens is not None and span.output_tokens is not None:
            alike.setdefault((span.input_tokens, span.output_tokens), []).append(span)
    found: dict[str, str] = {}
    for spans in alike.values():
        for at, span in enumerate(spans[1:], 1):
            same = next((one for one in spans[max(0, at - MAX_NEAR) : at] if _is_same(tree, one, span)), None)
            if same is not None:
                found[span.span_id] = found.get(same.span_id, same.span_id)
    return found


def recorded(tree: Tree) -> dict[str, str]:
    """Return the spans that only record what calls used, each with the call, or the agent whose calls it sums up.

    A record tells tokens soon after a call, but neither an operation nor messages. Each call and each agent has one at
    most.
    """
    records = [span for span in tree.spans.values() if span.is_record]
    calls: dict[_Amounts, list[TraceMember]] = {}
    for span in tree.spans.values():
        if records and span.span_type == "llm" and not span.is_record:
            calls.setdefault(_amounts(span), []).append(span)
    found: dict[str, str] = {}
    for record in records:
        same = calls.get(_amounts(record), [])
        call = next((call for call in islice(same, _MAX_ALIKE) if _may_record(tree, record, call)), None)
        if call is not None:
            same.remove(call)
            found[record.span_id] = call.span_id
    return found | _summed_up(tree, [record for record in records if record.span_id not in found], found)


def _summed_up(tree: Tree, records: Sequence[TraceMember], found: Mapping[str, str]) -> dict[str, str]:
    """Return the records that sum up what the calls of another agent used, each with that agent."""
    agents = {span.span_id: span for span in tree.spans.values() if span.span_type == "agent"}
    if not records or not agents:
        return {}
    amounts = {span_id: _amounts(span) for span_id, span in tree.spans.items() if span_id not in found}
    amounts = {span_id: amount for span_id, amount in amounts.items() if amount != (None, None)}
    above = repeating(tree, amounts)
    sums: dict[str, tuple[int, int]] = {}
    for span_id in amounts.keys() - above:
        _add(sums, tree, amounts[span_id], span_id, 1)
    sums_up: dict[str, str] = {}
    for record in records[:_MAX_ALIKE]:
        around = {*tree.above(record.span_id, _MAX_LEVELS)}
        used = tuple(amount or 0 for amount in _amounts(record))
        others = (agent for agent in agents if agent not in around and sums.get(agent) == used)
        agent = next((agent for agent in others if _is_over(agents[agent], record)), None)
        if agent is not None:
            del agents[agent]
            sums_up[record.span_id] = agent
            _add(sums, tree, _amounts(record), record.span_id, -1)
    return sums_up


def _add(sums: dict[str, tuple[int, int]], tree: Tree, amounts: _Amounts, span_id: str, sign: int) -> None:
    for above in tree.above(span_id, _MAX_LEVELS):
        asked, answered = sums.get(above, (0, 0))
        sums[above] = asked + sign * (amounts[0] or 0), answered + sign * (amounts[1] or 0)


def _amounts(span: TraceMember) -> _Amounts:
    return span.input_tokens, span.output_tokens


def _may_record(tree: Tree, record: TraceMember, call: TraceMember) -> bool:
    """Return whether a record may be of a call. What is below the call or above it is no record beside it."""
    if not _is_over(call, record) or not _have_one_model(record, call):
        return False
    ids = record.answer_id, call.answer_id
    if all(ids) and ids[0] != ids[1]:
        return False
    return not tree.is_below(record.span_id, call.span_id) and not tree.is_below(call.span_id, record.span_id)


def _is_over(work: TraceMember, record: TraceMember) -> bool:
    """Return whether some work was just done when it was recorded."""
    end_ns = _until_ns(work)
    return _until_ns(record) >= end_ns - _TOLERANCE_NS and record.start_ns <= end_ns + _MAX_LATER_NS


def is_one_answer(first: TraceMember, later: TraceMember) -> bool:
    """Return whether two spans with one response id tell of one call: proxies and local servers repeat short ids.

    Two libraries may count one side differently: the input without what came from a cache, the output of a stream.
    """
    is_input_alike = _are_alike(first.input_tokens, later.input_tokens)
    is_output_alike = _are_alike(first.output_tokens, later.output_tokens)
    needed = all if first.scope == later.scope else any
    return (
        needed((is_input_alike, is_output_alike))
        and later.start_ns <= _until_ns(first)
        and _may_be_one_call(first, later)
    )


def _are_alike(first: int | None, second: int | None) -> bool:
    return first is None or second is None or first == second


def _may_be_one_call(first: TraceMember, second: TraceMember) -> bool:
    return _have_one_model(first, second) and _may_have_one_input(first.input, second.input)


def _have_one_model(first: TraceMember, second: TraceMember) -> bool:
    if first.model == second.model:
        return True
    begins = sorted(((one.model or "").rpartition("/")[2] for one in (first, second)), key=len)
    return begins[1].startswith(begins[0])


def _may_have_one_input(first: str | None, second: str | None) -> bool:
    """Return whether two inputs can be of one call: one library may cut or wrap it, or send it as JSON."""
    if first == second:
        return True
    texts = sorted(((first or "").strip(), (second or "").strip()), key=len)
    return texts[0] in texts[1] or any(text.startswith(("{", "[")) for text in texts)


def _until_ns(work: TraceMember) -> int:
    return max(work.start_ns, work.end_ns or 0) + _TOLERANCE_NS


def _is_same(tree: Tree, first: TraceMember, span: TraceMember) -> bool:
    if first.scope == span.scope or tree.is_below(span.span_id, first.span_id):
        return False
    ids = first.answer_id, span.answer_id
    if all(ids):
        return ids[0] == ids[1] and is_one_answer(first, span)
    end_ns = _until_ns(first)
    return span.start_ns <= end_ns and (span.end_ns or 0) <= end_ns and _may_be_one_call(first, span)
