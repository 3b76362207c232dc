"""Inputs of models, read incrementally: of each conversation only the part that earlier inputs do not have.

An agent sends its model the whole conversation again with each call, so that reading all of it each time costs the
square of its length.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from collector.conventions.member import TraceMember, messages_of
from collector.conventions.parts import Part
from storage.records import Message

_MOST: Final = 8  # conversations side by side, of the agents of a trace; a guess


@dataclass(frozen=True, slots=True, kw_only=True)
class _Conversation:
    """State of a conversation: the JSON that was read, and its calls without a result."""

    text: str
    waiting: Mapping[str, Part]
    counts: Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResults:
    """The results that a conversation adds, each with its call, and the numbers of earlier results by call."""

    results: list[tuple[Part, Part]]
    counts: Counter[tuple[str, ...]]  # shared with the conversation's next inputs; the caller updates it


class Conversations:
    """Incremental reader of models' inputs, for those that add only results of requested calls."""

    def __init__(self, requested: AbstractSet[tuple[str | None, str]]) -> None:
        """Set up with the ids and names of the requested calls."""
        self._requested = requested
        self._known: list[_Conversation] = []  # the latest last

    def results(self, span: TraceMember) -> NewResults | None:
        """Return the results in a span's input that no earlier span of the conversation has in its input.

        None if the whole input must be read, because its new part has one of three things: a call that no model of
        the trace requested, a call or result without an id, or a result without its call before it.
        """
        text = span.prompt if isinstance(span.prompt, str) else None
        before, messages = self._new_messages(span)
        waiting = {} if before is None else dict(before.waiting)
        results: list[tuple[Part, Part]] = []
        for part in tool_parts(messages):
            identity = part.get("id")
            if not isinstance(identity, str):
                return None
            if part["type"] == "tool_call":
                if identity in waiting or (identity, part.get("name")) not in self._requested:
                    return None
                waiting[identity] = part
            elif identity in waiting:
                results.append((waiting.pop(identity), part))
            else:
                return None
        counts = Counter() if before is None else before.counts
        if text is not None:
            self._remember(_Conversation(text=text, waiting=waiting, counts=counts), before)
        return NewResults(results=results, counts=counts)

    def _new_messages(self, span: TraceMember) -> tuple[_Conversation | None, Sequence[Message]]:
        """Return the conversation that a span continues, and the new messages; or None and all messages of the span."""
        if isinstance(span.prompt, str):
            for known in reversed(self._known):
                rest = _rest(span.prompt, known.text)
                messages = None if rest is None else messages_of(rest)
                if messages is not None:
                    return known, messages
        return None, span.input_messages or ()

    def _remember(self, conversation: _Conversation, before: _Conversation | None) -> None:
        self._known = [known for known in self._known if known is not before][-_MOST + 1 :]
        self._known.append(conversation)


def tool_parts(messages: Sequence[Message]) -> Iterator[Part]:
    """Yield the tool calls and results in messages."""
    for message in messages:
        parts = message["parts"]
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") in ("tool_call", "tool_call_response"):
                yield part


def _rest(text: str, earlier: str) -> str | None:
    """Return a JSON list without the items of an earlier list; None if it does not begin with them."""
    head = earlier.rstrip().removesuffix("]").rstrip()
    if not head.strip("[ ") or not text.startswith(head):
        return None
    behind = text[len(head) :].lstrip()
    if behind.startswith(","):
        return f"[{behind[1:]}"
    return f"[{behind}" if behind.startswith("]") else None
