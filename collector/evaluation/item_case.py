"""The test case of a run's item: the item itself, completed from its trace.

The item's own values win over its trace. A trace supplies only keys that the item lacks, and is read only if an
evaluator requires one of these.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from evaluators.captured import CAPTURE_HINT, IN_TRACE, NOT_CAPTURED, NOT_READ, SPAN_COUNT
from evaluators.case import has
from evaluators.model import Case, text_of
from storage.offline.run_evaluations import Unscored
from storage.records import Span

_SUPPLIED: Final[Mapping[str, Sequence[str]]] = {
    "inputs": ("input",),
    "actual_outputs": ("output", "toolCalls", "context", "retrievalContext", "trajectory", "reasoningSteps"),
    "metadata": ("tools", "traceSummary"),
}
"""The keys of each map that a trace may supply."""

_OF_CALLS: Final = frozenset({"eventCount", "toolNames", "toolCallsByName", "errorCount"})
"""Members of a trace's summary about tool calls, which are dropped if the item has tool calls of its own."""


def case_document(item: Unscored) -> dict[str, Any]:
    """Return an item's test case without its trace; `IN_TRACE` lists the keys that a trace, if any, may supply."""
    document = {
        "inputs": json.loads(item.inputs),
        "actualOutputs": json.loads(item.actual_outputs),
        "expectedOutputs": json.loads(item.expected_outputs),
        "metadata": json.loads(item.metadata),
    }
    if item.trace_id is not None:
        maps = {
            "inputs": document["inputs"],
            "actual_outputs": document["actualOutputs"],
            "metadata": document["metadata"],
        }
        lacking = [key for name, keys in _SUPPLIED.items() for key in keys if not has(maps[name] or {}, key)]
        document["metadata"] = {**(document["metadata"] or {}), IN_TRACE: lacking}
    return document


def with_trace(item: Unscored, trace: Case) -> Unscored:
    """Return the item with the parts of its trace that it lacks, and the marks of those that were not captured."""
    maps = {name: json.loads(getattr(item, name)) or {} for name in _SUPPLIED}
    has_calls = has(maps["actual_outputs"], "toolCalls")
    lacking = {key for name, keys in _SUPPLIED.items() for key in keys if not has(maps[name], key)}
    for name, keys in _SUPPLIED.items():
        values = getattr(trace, name)
        maps[name] |= {key: values[key] for key in keys if key in lacking and key in values}
    if has_calls and "traceSummary" in lacking:
        summary = maps["metadata"].get("traceSummary") or {}
        maps["metadata"]["traceSummary"] = {key: each for key, each in summary.items() if key not in _OF_CALLS}
    for mark in (NOT_CAPTURED, NOT_READ):
        if marked := [key for key in trace.metadata.get(mark) or () if key in lacking]:
            maps["metadata"][mark] = marked
    maps["metadata"] |= {mark: trace.metadata[mark] for mark in (SPAN_COUNT, CAPTURE_HINT) if mark in trace.metadata}
    inputs, actual_outputs, metadata = map(text_of, maps.values())
    return replace(item, trace_id=None, inputs=inputs, actual_outputs=actual_outputs, metadata=metadata)


def spans_below(spans: Sequence[Span], span_id: str | None) -> list[Span]:
    """Return a span and its descendants, also if the span itself is not stored; all spans if none of these is.

    Several items may share a trace, for example of a traced test session, and then have different spans.
    """
    below = {span_id}
    children: dict[str | None, list[str]] = {}
    for span in spans:
        children.setdefault(span.parent_span_id, []).append(span.span_id)
    left = [span_id] if span_id is not None else []
    while left:
        new = [each for each in children.get(left.pop(), ()) if each not in below]
        below.update(new)
        left += new
    return [span for span in spans if span.span_id in below] or list(spans)
