"""Traces and single spans from their stored columns, each part computed on demand."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa

from collector.conventions.calls import tool_calls
from collector.conventions.member import TraceMember, decoded
from collector.conventions.trace import Sums, conversation_of, definitions_of, sums_of_tree
from collector.conventions.tree import Tree, tree_of
from storage.records import Message, OfferedTool, TraceToolCall

_AS_IS: Final = {
    "span_id": "span_id",
    "parent_span_id": "parent_span_id",
    "span_type": "span_type",
    "input": "input",
    "output": "output",
    "prompt": "input_messages",
    "answered": "output_messages",
    "tool_name": "tool_name",
    "tool_call_id": "tool_call_id",
    "arguments": "tool_arguments",
    "response_id": "response_id",
    "model": "model",
    "scope": "scope_name",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
    "finish_reason": "finish_reason",
    "cost_usd": "cost_usd",
    "cost_source": "cost_source",
    "session_id": "session_id",
    "user_id": "user_id",
    "error": "error",
    "error_type": "error_type",
    "offered": "tool_definitions",
    "noted": "notes",
}
"""The fields of a member of a trace, and their columns."""

_FIELDS: Final = tuple(field.name for field in fields(TraceMember))


class StoredSpan(NamedTuple):
    """A span, and the trace that it is part of."""

    tenant: str
    trace_id: str
    member: TraceMember


class StoredTrace:
    """Reading of a trace from stored spans, with the interface of `TraceReading`."""

    def __init__(self, trace_id: str, members: Sequence[TraceMember]) -> None:
        """Set up with all spans of the trace, or with one span to read by itself."""
        self.trace_id = trace_id
        self.members = members

    @cached_property
    def tree(self) -> Tree:
        """Return the spans as a forest, by start."""
        return tree_of(self.members)

    @cached_property
    def sums(self) -> Sums:
        """Return the sums of the spans, without their calls of tools."""
        return sums_of_tree(self.tree)

    @property
    def spans(self) -> Mapping[str, TraceMember]:
        """Return the spans by id."""
        return self.tree.spans

    @cached_property
    def tool_calls(self) -> tuple[TraceToolCall, ...]:
        """Return the tool calls, each once, by start time."""
        return tool_calls(self.tree)

    @cached_property
    def conversation(self) -> tuple[Message, ...]:
        """Return the longest conversation of one of the spans, with the answer."""
        return conversation_of(self.tree)

    @cached_property
    def tool_definitions(self) -> tuple[OfferedTool, ...]:
        """Return the tools that models were offered, each name once."""
        return definitions_of(self.tree)

    @property
    def input(self) -> str | None:
        """Return the input."""
        return self.sums.input

    @property
    def output(self) -> str | None:
        """Return the output."""
        return self.sums.output

    @property
    def final_response(self) -> str | None:
        """Return the last text of a model."""
        return self.sums.final_response

    @property
    def finish_reason(self) -> str | None:
        """Return why the last answer of a model ended."""
        return self.sums.finish_reason

    @property
    def session_id(self) -> str | None:
        """Return the session id."""
        return self.sums.session_id

    @property
    def user_id(self) -> str | None:
        """Return the user id."""
        return self.sums.user_id

    @property
    def input_tokens(self) -> int | None:
        """Return the tokens that models were sent."""
        return self.sums.input_tokens

    @property
    def output_tokens(self) -> int | None:
        """Return the tokens that models wrote."""
        return self.sums.output_tokens

    @property
    def cost_usd(self) -> float | None:
        """Return the cost of models, in USD."""
        return self.sums.cost_usd


def stored_spans(rows: pa.Table) -> Iterator[StoredSpan]:
    """Yield the spans of rows with the columns of `stored_meanings.sql`."""
    columns: dict[str, list[Any]] = {field: rows.column(name).to_pylist() for field, name in _AS_IS.items()}
    columns["start_ns"] = rows.column("start_time").cast(pa.int64()).to_pylist()
    columns["end_ns"] = [end_ns or None for end_ns in rows.column("end_time").cast(pa.int64()).to_pylist()]
    results, are_texts = (rows.column(name).to_pylist() for name in ("tool_result", "tool_result_is_text"))
    columns["tool_result"] = [
        text if text is None or is_text else decoded(text) for text, is_text in zip(results, are_texts, strict=True)
    ]
    columns["has_result"] = [text is not None for text in results]
    columns["is_bare"] = [
        is_answer is False and answered is None
        for is_answer, answered in zip(rows.column("output_is_answer").to_pylist(), columns["answered"], strict=True)
    ]
    columns["has_stored_arguments"] = [True] * rows.num_rows
    members = map(TraceMember, *(columns[name] for name in _FIELDS))
    return map(StoredSpan, rows.column("tenant").to_pylist(), rows.column("trace_id").to_pylist(), members)
