"""The model that answered, from an answer in JSON: a vendor's response, or a framework's object made from one."""

import re
from collections.abc import Iterator
from typing import Final

from collector.conventions.finish import has_counts, is_of_maps, is_response
from collector.conventions.python_repr import is_written
from collector.conventions.slot_values import SlotValues
from collector.conventions.values import as_dict
from storage.records import JsonValue

_MENTIONS: Final = "model"
_NAMES: Final = ("model_name", "model", "model_version", "modelVersion")
_IN_ORDER: Final = ("response_metadata", "generation_info", "llm_output", "llmOutput", "_meta", "meta")
_METADATA: Final = frozenset(_IN_ORDER)
_WITHIN: Final = ("generations", "message", "kwargs", "data", "raw", "response", "replies")
_CHOICES: Final = ("choices", "candidates")
_COUNTS: Final = ("usage", "usage_metadata", "usageMetadata")
_RESPONSES: Final = frozenset({*_CHOICES, *_COUNTS, "eval_count"})
"""Keys that identify a vendor's response: the `model` beside them is the one that answered. In any other JSON, `model`
may mean anything."""

_WRITTEN: Final = re.compile(
    r"""\bmodel(?:_name|_version)?='([^'\\\n]+)'|[(\[{]|[)\]}]|'(?:[^'\\]|\\.?)*+(?:'|\Z)|"(?:[^"\\]|\\.?)*+(?:"|\Z)""",
    re.DOTALL,
)
"""Pattern of the model in a response's Python repr, outside of string literals. Parsing all of the repr takes a hundred
times as long."""

_FIRST: Final = 2  # items of a list, which is of messages, generations or events
_DEEPEST: Final = 7  # a list of lists of generations, with messages within objects of LangChain


def answering_model(slot_values: SlotValues) -> str | None:
    """Return the model that an answer names, or None; a text that names the model of the attributes is not parsed."""
    answers = slot_values.candidates("raw_answer")
    names = slot_values.candidates("named_model") if answers else []
    named = names[0][2] if names else None
    for _, _, value, source in answers:
        if isinstance(value, str) and (_MENTIONS not in value or _is_confirmed(named, value)):
            continue
        model = next(_models(slot_values.opened(value, source) if isinstance(value, str) else value, _DEEPEST), None)
        if model is not None:
            slot_values.sources["model"] = source
            return model
    return None


def _is_confirmed(named: object, text: str) -> bool:
    """Return whether a text names a model as a response does, without decoding it."""
    if not isinstance(named, str):
        return False
    close, apart = f'":"{named}"', f'": "{named}"'
    return (
        "model" + close in text
        or "model" + apart in text
        or "model_name" + close in text
        or "model_name" + apart in text
    )


def _models(value: object, depth: int, *, is_within: bool = False) -> Iterator[str]:
    """Yield the models that an answer names; `is_within`: it is part of a framework's object for a response."""
    if isinstance(value, str) and _MENTIONS in value and is_written(value):
        yield from _written(value)
    elif isinstance(value, list):
        for item in value[:_FIRST] if depth else ():
            yield from _models(item, depth - 1, is_within=is_within)
    if not isinstance(value, dict):
        return
    if not _RESPONSES.isdisjoint(value) and _is_of_vendor(value):
        yield from _named(value)
    is_within = is_within or is_response(value)
    for name in _WITHIN if depth else ():
        if name in value:
            yield from _models(value[name], depth - 1, is_within=is_within)
    for name in () if not is_within or _METADATA.isdisjoint(value) else _IN_ORDER:
        yield from _named(as_dict(value.get(name)))


def _is_of_vendor(value: dict[str, JsonValue]) -> bool:
    return (
        any(is_of_maps(value.get(key)) for key in _CHOICES)
        or any(has_counts(value.get(key)) for key in _COUNTS)
        or isinstance(value.get("eval_count"), int)
        or value.get("object") == "response"  # of OpenAI, before it has counts
    )


def _written(text: str) -> Iterator[str]:
    """Yield the model that is named at the outermost level; a deeper one may be an argument of a tool."""
    depth, least, model = 0, len(text), None
    for match in _WRITTEN.finditer(text):
        mark = match[0]
        if match[1] and depth < least:
            least, model = depth, match[1]
        elif mark in _OPENING:
            depth += 1
        elif mark in _CLOSING:
            depth -= 1
    if model is not None:
        yield model


_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def _named(value: dict[str, JsonValue]) -> Iterator[str]:
    for name in _NAMES:
        text = value.get(name)
        if isinstance(text, str) and text and not text.isspace():
            half = text[: len(text) // 2]
            yield half if half + half == text else text  # LangChain of 2024 concatenates the names of two chunks
