"""Traces and single spans as their stored columns tell them, each part worked out when somebody asks for it."""

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
    "asked": "input_messages",
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
"""The fields of a member of a trace, and the columns that tell them."""

_FIELDS: Final = tuple(field.name for field in fields(TraceMember))


class StoredSpan(NamedTuple):
    """A span, and the trace that it is part of."""

    tenant: str
    trace_id: str
    member: TraceMember


class StoredTrace:
    """What spans of one trace mean together, as `TraceReading` says it of spans that are read."""

    def __init__(self, trace_id: str, members: Sequence[TraceMember]) -> None:
        """`members` are all spans of the trace, or a single one that is looked at by itself."""
        self.trace_id = trace_id
        self.members = members

    @cached_property
    def tree(self) -> Tree:
        """The spans as a forest, in the order in which they are told."""
        return tree_of(self.members)

    @cached_property
    def sums(self) -> Sums:
        """What the spans tell together, but for their calls of tools."""
        return sums_of_tree(self.tree)

    @property
    def spans(self) -> Mapping[str, TraceMember]:
        """The spans by their ids."""
        return self.tree.spans

    @cached_property
    def tool_calls(self) -> tuple[TraceToolCall, ...]:
        """The calls of tools, each once, by start time."""
        return tool_calls(self.tree)

    @cached_property
    def conversation(self) -> tuple[Message, ...]:
        """The longest that one of the spans tells, with the answer."""
        return conversation_of(self.tree)

    @cached_property
    def tool_definitions(self) -> tuple[OfferedTool, ...]:
        """The tools that models were offered, each name once."""
        return definitions_of(self.tree)

    @property
    def input(self) -> str | None:
        """What went in."""
        return self.sums.input

    @property
    def output(self) -> str | None:
        """What came out."""
        return self.sums.output

    @property
    def final_response(self) -> str | None:
        """The last words of a model."""
        return self.sums.final_response

    @property
    def finish_reason(self) -> str | None:
        """Why the last answer of a model ended."""
        return self.sums.finish_reason

    @property
    def session_id(self) -> str | None:
        """The session that it is part of."""
        return self.sums.session_id

    @property
    def user_id(self) -> str | None:
        """Whom it was for."""
        return self.sums.user_id

    @property
    def input_tokens(self) -> int | None:
        """What models were sent."""
        return self.sums.input_tokens

    @property
    def output_tokens(self) -> int | None:
        """What models wrote."""
        return self.sums.output_tokens

    @property
    def cost_usd(self) -> float | None:
        """What models cost."""
        return self.sums.cost_usd


def stored_spans(rows: pa.Table) -> Iterator[StoredSpan]:
    """The spans of rows with the columns of `stored_meanings.sql`."""
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
