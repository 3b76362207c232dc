"""The rows of a dialect: how it is recognised and where it keeps each field.

A row is a text: `key`, or `key.*` for attributes that are numbered below a key, or `key#a.b` for a member of the JSON
in it, or `key=value` for a flag; `event NAME/key` is an attribute of a span's event (or the body or an attribute of a
log record). `only key` counts only if the span has another sign of the dialect, since other dialects have the key, too;
`json key` is a text that was written as JSON. `scope NAME/key` counts only on spans of one library, `kind KIND/key`
only on spans of one kind.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from storage.records import SpanType

Slot: TypeAlias = Literal[
    "input",
    "output",
    "input_messages",
    "output_messages",
    "whole_input",  # messages; if there is one, it may contain all of them as JSON
    "raw_dialogue",  # a raw request or response, which may have more than the messages made of it
    "call_ids",  # of the calls in an answer, several in one text
    "result_ids",  # messages whose results have call ids, but whose calls have item ids
    "made_up_ids",  # messages in which calls have ids that no model gave them
    "marked_ids",  # answers with made-up ids, which a prefix reveals
    "texts_of_items",  # items of OpenAI's responses may be recorded as Python reprs
    "texts_of_blocks",  # blocks of an answer can be texts, as JSON or literals
    "trajectory",  # a whole conversation, in one list
    "system",
    "answer_text",  # pieces of an answer that is not a message
    "answer_reasoning",
    "answer_calls",
    "calls_beside",  # calls that the messages of an answer may lack: numbered ones, or those in events of its stream
    "reply",  # what the model sent itself: it may have thoughts and words that the answer made of it leaves out
    "automatic_calls",  # calls that a client library made itself before the answer
    "finish_reasons",  # why an answer ended; also shows that a blank text stands for tool calls
    "tool_name",
    "tool_call_id",
    "tool_arguments",
    "tool_result",
    "tool_definitions",
    "offered",  # messages that include tool definitions
    "model",
    "raw_answer",  # an answer itself, which may name the model that gave it
    "named_model",  # of libraries that record either the requested or the answering model
    "asked_model",
    "provider",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cached_apart",  # of a dialect whose input tokens leave the cached ones out
    "usage_apart",  # a map of counts, whose `input` may exclude counts named `input_…`; likewise `output`
    "reasoning_tokens",
    "written_tokens",  # of the input, written to a cache
    "total_tokens",  # shows whether input and output include cached and reasoning tokens
    "total_as_output",  # a total; an output count that equals it is wrong: it is the total
    "cost_usd",
    "session_id",
    "user_id",
    "run_id",  # of an experiment; the span belongs to one of its items
    "item_key",
    "error",
    "error_type",
    "failed",
    "history",  # a retriever reads the conversation so far, and searches nothing
    "pending",  # announces a span that is sent again when it has ended
    "response_id",  # id of a model's answer: spans that share it are about one call
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Sign of a dialect: a key (or its beginning, with a dot or colon at the end), a scope, a resource, a name."""

    key: str = ""
    value: str = ""  # of the key or the resource's attribute; empty: any
    scope: str = ""  # the beginning of the name
    resource: str = ""  # the key of an attribute of the resource
    span: str = ""  # the beginning of the name of the span
    with_genai: bool = False  # counts only on a span that has some `gen_ai.` attribute
    is_weak: bool = False  # counts only if there is no other sign of a dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """Kinds of span by the value of a key; other values mean nothing."""

    key: str
    values: Mapping[str, SpanType] = field(default_factory=dict)  # in lower case; "*x" is a suffix, "" any other value
    is_first: bool = False  # overrides any other key


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One dialect of instrumentation."""

    name: str
    signs: tuple[Sign, ...] = ()
    kinds: tuple[Kinds, ...] = ()
    span_names: Mapping[str, SpanType] = field(default_factory=dict)  # by prefix, if no key decides
    sure_names: Mapping[str, SpanType] = field(default_factory=dict)  # by prefix, overriding keys
    places: Mapping[Slot, Sequence[str]] = field(default_factory=dict)
    capture: str = ""  # how to have it send content
    captures: Mapping[str, str] = field(default_factory=dict)  # likewise, of libraries by the beginning of their scope
    has_one_switch: bool = False  # `capture` is for inputs and outputs: a span with either shows that it is on
    has_early_status: bool = False  # it sets OK when a step begins, and the SDK lets no failure take that back


@dataclass(frozen=True, slots=True)
class FieldSource:
    """A parsed row."""

    slot: Slot
    rank: int  # among the rows of its slot: the lowest with a value wins
    dialect: str
    key: str
    event: str = ""
    path: tuple[str, ...] = ()
    value: str = ""
    is_group: bool = False
    is_only: bool = False
    is_json: bool = False
    scope: str = ""  # counts only on spans whose scope's name begins so; empty: on all
    kind: str = ""  # counts only on spans of this kind; empty: on all


def place_of(row: str, *, slot: Slot, rank: int, dialect: str) -> FieldSource:
    """Parse a row."""
    is_only, is_json = row.startswith("only "), row.startswith(("json ", "only json "))
    text = row.removeprefix("only ").removeprefix("json ")
    event = scope = ""
    if text.startswith("scope "):
        scope, _, text = text.removeprefix("scope ").rpartition("/")
    kind = ""
    if text.startswith("kind "):
        kind, _, text = text.removeprefix("kind ").partition("/")
    if text.startswith("event "):
        event, _, text = text.removeprefix("event ").partition("/")
    key, _, path = text.partition("#")
    key, _, value = key.partition("=")
    return FieldSource(
        slot=slot,
        rank=rank,
        dialect=dialect,
        key=key.removesuffix(".*"),
        event=event,
        path=tuple(path.split(".")) if path else (),
        value=value.lower(),
        is_group=key.endswith(".*"),
        is_only=is_only,
        is_json=is_json,
        scope=scope,
        kind=kind,
    )
