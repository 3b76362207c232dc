"""What models were sent, each conversation but for what an earlier call of a model was sent of it already.

An agent sends its model the whole conversation again with each call, so that to look through all of it each time costs
the square of its length.
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
    """What was looked through: the JSON, and the calls in it that have no result yet."""

    text: str
    waiting: Mapping[str, Part]
    counts: Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewResults:
    """The results that a conversation adds, each with its call, and a place to count those before them."""

    results: list[tuple[Part, Part]]
    counts: Counter[tuple[str, ...]]  # handed on to the next part of the conversation


class Conversations:
    """Tells what is new in what models were sent, where it is no more than results of calls that they asked for."""

    def __init__(self, asked: AbstractSet[tuple[str | None, str]]) -> None:
        """`asked` is the ids and names of the calls that models asked for."""
        self._asked = asked
        self._known: list[_Conversation] = []  # the latest last

    def results(self, span: TraceMember) -> NewResults | None:
        """The results that a span was sent, without those that an earlier span was sent in the same conversation.

        None where it was sent more of tools than that, so that all of it has to be looked through: a call that nobody
        asked for, calls or results without an id, or results of other calls than those before them.
        """
        text = span.asked if isinstance(span.asked, str) else None
        before, messages = self._new_messages(span)
        waiting = {} if before is None else dict(before.waiting)
        results: list[tuple[Part, Part]] = []
        for part in tool_parts(messages):
            identity = part.get("id")
            if not isinstance(identity, str):
                return None
            if part["type"] == "tool_call":
                if identity in waiting or (identity, part.get("name")) not in self._asked:
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
        """The conversation that a span goes on with, and the messages behind it; None: all of its own."""
        if isinstance(span.asked, str):
            for known in reversed(self._known):
                rest = _rest(span.asked, known.text)
                found = None if rest is None else messages_of(rest)
                if found is not None:
                    return known, found
        return None, span.input_messages or ()

    def _remember(self, conversation: _Conversation, before: _Conversation | None) -> None:
        self._known = [known for known in self._known if known is not before][-_MOST + 1 :]
        self._known.append(conversation)


def tool_parts(messages: Sequence[Message]) -> Iterator[Part]:
    """The calls of tools and the results in messages."""
    for message in messages:
        parts = message["parts"]
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and part.get("type") in ("tool_call", "tool_call_response"):
                yield part


def _rest(text: str, earlier: str) -> str | None:
    """What a list in JSON has behind the items of an earlier one, as a list; None where it does not begin with them."""
    head = earlier.rstrip().removesuffix("]").rstrip()
    if not head.strip("[ ") or not text.startswith(head):
        return None
    behind = text[len(head) :].lstrip()
    if behind.startswith(","):
        return f"[{behind[1:]}"
    return f"[{behind}" if behind.startswith("]") else None
