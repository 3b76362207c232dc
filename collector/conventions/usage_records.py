"""Spans that only record what calls of models used."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from collector.conventions.doubles import TOLERANCE_NS, have_one_model, until_ns
from collector.conventions.member import TraceMember
from collector.conventions.tree import Tree
from collector.conventions.wrapping import repeating

_Amounts: TypeAlias = tuple[int | None, int | None]  # tokens of the input and the output

_MAX_LATER_NS = 2_000_000_000  # a guess: how long after a call its usage is recorded; AG2 does so at once
_MAX_ALIKE = 64  # a guess: records that are compared with agents, and calls with one record
_MAX_LEVELS = 64  # a guess: spans between an agent and a call of its models


def recorded(tree: Tree) -> dict[str, str]:
    """Return the spans that only record usage, each with its call, or the agent whose calls it sums up.

    A record has tokens soon after a call, but neither an operation nor messages. Each call and each agent has at
    most one record.
    """
    records = [span for span in tree.spans.values() if span.is_record]
    calls: dict[_Amounts, list[TraceMember]] = {}
    for span in tree.spans.values():
        if records and span.span_type == "llm" and not span.is_record:
            calls.setdefault(_amounts(span), []).append(span)
    of_calls: dict[str, str] = {}
    for record in records:
        same = calls.get(_amounts(record), [])
        call = next((call for call in islice(same, _MAX_ALIKE) if _may_record(tree, record, call)), None)
        if call is not None:
            same.remove(call)
            of_calls[record.span_id] = call.span_id
    others = [record for record in records if record.span_id not in of_calls]
    return of_calls | _summed_up(tree, others, of_calls)


def _summed_up(tree: Tree, records: Sequence[TraceMember], of_calls: Mapping[str, str]) -> dict[str, str]:
    """Return the records that sum up what the calls of another agent used, each with that agent."""
    agents = {span.span_id: span for span in tree.spans.values() if span.span_type == "agent"}
    if not records or not agents:
        return {}
    amounts = {span_id: _amounts(span) for span_id, span in tree.spans.items() if span_id not in of_calls}
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
        of_input, of_output = sums.get(above, (0, 0))
        sums[above] = of_input + sign * (amounts[0] or 0), of_output + sign * (amounts[1] or 0)


def _amounts(span: TraceMember) -> _Amounts:
    return span.input_tokens, span.output_tokens


def _may_record(tree: Tree, record: TraceMember, call: TraceMember) -> bool:
    """Return whether a record may hold the usage of a call. A span below or above the call is not such a record."""
    if not _is_over(call, record) or not have_one_model(record.model, call.model):
        return False
    ids = record.answer_id, call.answer_id
    if all(ids) and ids[0] != ids[1]:
        return False
    return not tree.is_below(record.span_id, call.span_id) and not tree.is_below(call.span_id, record.span_id)


def _is_over(work: TraceMember, record: TraceMember) -> bool:
    end_ns = until_ns(work)
    return until_ns(record) >= end_ns - TOLERANCE_NS and record.start_ns <= end_ns + _MAX_LATER_NS
