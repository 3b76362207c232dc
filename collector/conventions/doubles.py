"""Spans of a trace that report the same call of a model, as libraries do that instrument the same client."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, compress, islice
from typing import Final, TypeAlias

from collector.conventions.member import TraceMember
from collector.conventions.tree import Tree
from collector.conventions.values import NotJson, decode

_Key: TypeAlias = str | tuple[int, int]  # a response id, or the tokens of the input and the output

TOLERANCE_NS: Final = 50_000_000  # a guess: how much later a library that is called back can notice an end
_MAX_NEAR: Final = 8  # a guess: calls that are compared with one span
_MAX_PASSED: Final = 64  # a guess: calls with the same key, from which those are chosen
_MAX_LEVELS: Final = 64  # a guess: spans between two that report one call
_LEAST_ID_CHARS: Final = 16
"""Letters and digits of a response id that stands for one call alone; a guess.

Services send 22 and more (`msg_01XFDUDYJgAACzvnptvVoYEL`), local servers and proxies repeat `chatcmpl-517`.
"""
_STREAM_SHARE: Final = 0.2
"""Share by which the output of a stream may differ if a library counts it itself; 8 tokens for 7 were recorded."""


def doubled(tree: Tree) -> dict[str, str]:
    """Map each span whose call other spans report too to the first span of that call, in order of start.

    A call has at most one span of each scope, because equal calls may run in parallel; only a long response id joins
    several. A span belongs to the call of an ancestor with the same response id or token counts. Else it belongs to a
    call with the same response id. Else it belongs to a call with the same token counts and model and a compatible
    input, if it lies within the time of that call.
    """
    keys = {span_id: _keys(span) for span_id, span in tree.spans.items()}
    uses = Counter(chain.from_iterable(keys.values()))
    calls = _Calls(tree, keys)
    for span_id, of_span in keys.items():
        if any(uses[key] > 1 for key in of_span):
            calls.add(tree.spans[span_id])
    return {span_id: call.first.span_id for span_id, call in calls.by_span.items() if len(call.scopes) > 1}


@dataclass(slots=True)
class _Call:
    first: TraceMember
    answer_id: str | None
    model: str | None
    input: str | None
    scopes: list[str | None] = field(default_factory=list)
    keys: set[_Key] = field(default_factory=set)


class _Calls:
    """The calls that spans report, by what may identify them."""

    def __init__(self, tree: Tree, keys: Mapping[str, Sequence[_Key]]) -> None:
        self.by_span: dict[str, _Call] = {}
        self._tree = tree
        self._keys = keys
        self._alike: dict[_Key, _Alike] = {}

    def add(self, span: TraceMember) -> None:
        """Find the call of a span, or begin one."""
        keys = self._keys[span.span_id]
        call = self._above(span) or next(filter(None, (self._beside(span, key) for key in keys)), None)
        if call is None:
            call = _Call(first=span, answer_id=None, model=None, input=None)
        call.answer_id = call.answer_id or span.answer_id
        call.model = call.model or span.model
        call.input = call.input or span.input
        call.scopes.append(span.scope)
        self.by_span[span.span_id] = call
        for key in keys:
            if key not in call.keys:
                call.keys.add(key)
                self._alike.setdefault(key, _Alike()).append(call, span.start_ns)

    def _above(self, span: TraceMember) -> _Call | None:
        """Return the call of a span above that shares a key and has no span of this scope; stop at agents and tools."""
        for above in self._tree.above(span.span_id, _MAX_LEVELS):
            if self._tree.spans[above].span_type in ("agent", "tool"):
                return None
            call = self.by_span.get(above)
            if (
                call is not None
                and span.scope not in call.scopes
                and not call.keys.isdisjoint(self._keys[span.span_id])
            ):
                return call
        return None

    def _beside(self, span: TraceMember, key: _Key) -> _Call | None:
        alike = self._alike.get(key)
        calls = () if alike is None else islice(alike.without(span), _MAX_NEAR)
        fitting = [call for call in calls if self._is_one(call, span)]
        return min(fitting, key=lambda call: until_ns(call.first), default=None)

    def _is_one(self, call: _Call, span: TraceMember) -> bool:
        if self._tree.is_below(span.span_id, call.first.span_id) or not have_one_model(call.model, span.model):
            return False
        ids = {call.answer_id, span.answer_id} - {None}
        is_sure = len(ids) == 1 and call.answer_id == span.answer_id and _is_long(call.answer_id)
        if len(ids) > 1 or not (is_sure or _is_within(span, call.first)):
            return False
        return _fit(call.first, span, is_sure=is_sure) and _may_have_one_input(call.input, span.input)


class _Alike:
    """Calls with one key, by start."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._places: dict[str | None, int] = {}  # by scope: index of the first call open to further spans
        self._most = _MAX_PASSED

    def append(self, call: _Call, now_ns: int) -> None:
        """Add a call; drop ended ones whenever there are twice as many as after the last cleanup."""
        self._calls.append(call)
        if len(self._calls) > self._most:
            left = [until_ns(each.first) >= now_ns for each in self._calls]
            before = [0, *accumulate(left)]
            self._places = {scope: before[place] for scope, place in self._places.items()}
            self._calls = list(compress(self._calls, left))
            self._most = 2 * max(len(self._calls), _MAX_PASSED)

    def without(self, span: TraceMember) -> Iterator[_Call]:
        """Iterate, oldest first, over the calls that had not ended at the span's start and have no span of its scope.

        A call with the span's long response id may already have one.
        """
        place = self._places.get(span.scope, 0)
        end = place + _MAX_PASSED
        while place < min(end, len(self._calls)) and not _is_open(self._calls[place], span):
            place += 1
        self._places[span.scope] = place
        return (call for call in islice(self._calls, place, place + _MAX_PASSED) if _is_open(call, span))


def _is_open(call: _Call, span: TraceMember) -> bool:
    if until_ns(call.first) < span.start_ns:
        return False
    return span.scope not in call.scopes or (call.answer_id == span.answer_id and _is_long(span.answer_id))


def _keys(span: TraceMember) -> Sequence[_Key]:
    """Return what identifies the call of a span, the surest first."""
    answer_id = span.answer_id
    ids = () if answer_id is None else (answer_id,)
    if span.span_type != "llm" or span.input_tokens is None or span.output_tokens is None:
        return ids
    return *ids, (span.input_tokens, span.output_tokens)


def _is_long(answer_id: str | None) -> bool:
    return sum(map(str.isalnum, answer_id or "")) >= _LEAST_ID_CHARS


def _is_within(span: TraceMember, first: TraceMember) -> bool:
    ends = until_ns(first), until_ns(span)
    return (span.end_ns or 0) <= ends[0] or (span.start_ns == first.start_ns and (first.end_ns or 0) <= ends[1])


def _fit(first: TraceMember, span: TraceMember, *, is_sure: bool) -> bool:
    """Return whether the tokens of two spans may be of one call.

    One of two libraries may count the input without cached tokens, and the output of a stream differently. If the
    response id is sure, one side suffices; two spans of one scope have to count alike.
    """
    is_input = _count_alike(first.input_tokens, span.input_tokens)
    is_output = _count_alike(first.output_tokens, span.output_tokens)
    if first.scope == span.scope:
        return is_input and is_output
    inputs = (first.input_tokens or 0), (span.input_tokens or 0)
    is_input = is_input or 0 in inputs or abs(inputs[0] - inputs[1]) in (first.cached_tokens, span.cached_tokens)
    outputs = sorted((first.output_tokens or 0, span.output_tokens or 0))
    is_output = is_output or outputs[0] == 0 or outputs[1] - outputs[0] <= outputs[1] * _STREAM_SHARE
    return is_input or is_output if is_sure else is_input and is_output


def _count_alike(first: int | None, second: int | None) -> bool:
    return first is None or second is None or first == second


def until_ns(span: TraceMember) -> int:
    """Return the latest time at which another library may record the end of the same call."""
    return max(span.start_ns, span.end_ns or 0) + TOLERANCE_NS


def have_one_model(first: str | None, second: str | None) -> bool:
    """Return whether two names can be of one model: with or without a provider or a date."""
    if first == second:
        return True
    begins = sorted(((one or "").rpartition("/")[2] for one in (first, second)), key=len)
    return begins[1].startswith(begins[0])


def _may_have_one_input(first: str | None, second: str | None) -> bool:
    """Return whether two inputs can be of one call: one library may cut or wrap it, or send it as JSON."""
    if first == second:
        return True
    texts = sorted(((first or "").strip(), (second or "").strip()), key=len)
    if texts[0] in texts[1]:
        return True
    if not any(text.startswith(("{", "[")) for text in texts):
        return False
    longest = [_longest_value(text) for text in texts]
    return any(
        value is None or _letters(value) in _letters(text) for value, text in zip(longest, reversed(texts), strict=True)
    )


def _longest_value(text: str) -> str | None:
    """Return the longest value in a JSON text; None if it is cut off or empty. Return any other text unchanged."""
    if not text.startswith(("{", "[")):
        return text
    try:
        values = [decode(text)]
    except NotJson:
        return None
    longest = None
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values.extend(value.values())
        elif isinstance(value, list):
            values.extend(value)
        else:
            plain = value if isinstance(value, str) else json.dumps(value)
            longest = plain if longest is None or len(plain) > len(longest) else longest
    return longest


_NO_LETTERS: Final = re.compile(r"\\+(?:u[0-9a-fA-F]{4}|.)|[^a-zA-Z0-9]+", re.DOTALL)


def _letters(text: str) -> str:
    return _NO_LETTERS.sub("", text)
