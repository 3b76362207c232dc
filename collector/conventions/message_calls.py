"""Tool calls in messages: their requests by models, and their results."""

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from collector.conventions.doubles import doubled
from collector.conventions.member import TraceMember
from collector.conventions.parts import ITEM_IDS, Part
from collector.conventions.pieces import parts_by_type, words_of
from collector.conventions.sent import Conversations, tool_parts
from collector.conventions.tree import Tree
from collector.conventions.values import canonical, text_of
from collector.conventions.wrapping import repeating
from storage.records import JsonValue, Message

_Mark = tuple[str, ...]  # the id of a call; or its id, name and arguments


@dataclass(slots=True, kw_only=True, eq=False)
class MessageCall:
    """A call in a message, and its result if another message has it."""

    span_id: str  # of the first span whose messages contain it
    start_ns: int  # of that span
    known_ns: int  # when the call was known: the end of that span
    call_id: str | None
    name: str
    arguments: JsonValue
    place: int  # in the answer, from 0
    response: Part | None = None
    _key: str | None = field(default=None, init=False)

    @property
    def key(self) -> str:
        """Return a text that equal arguments share. Lazy, since most calls of a history never need it."""
        if self._key is None:
            self._key = canonical(self.arguments)
        return self._key

    @property
    def mark(self) -> _Mark:
        """Return id, name and arguments, for calls with an id."""
        return (self.call_id or "", self.name, self.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """All calls in the messages of a trace."""

    requests: list[MessageCall]  # by models' answers, each once
    history: list[MessageCall]  # of this turn, found only in models' inputs


def requests_of(tree: Tree) -> Requests:
    """Return the calls in the messages of a trace, with their results.

    If a span and a span above it both have calls in their answers, those of the span above are repetitions: ignored.
    """
    listed = [
        (span, _MessageTools(span, _this_turn(span.output_messages)))
        for span in tree.spans.values()
        if span.has_tools_in_output
    ]
    telling = [(span, tools) for span, tools in listed if tools.has_calls]
    wrappers = repeating(tree, [span.span_id for span, _ in telling])
    with_calls = {span.span_id for span, _ in telling}
    kept: dict[str, str] = {}  # by call of a model
    for span_id, first in doubled(tree).items():
        if span_id in with_calls and span_id not in wrappers and kept.setdefault(first, span_id) != span_id:
            wrappers.add(span_id)
    requests = [
        call for span, tools in telling if span.span_id not in wrappers for call in _requested(tree, span, tools)
    ]
    conversations = Conversations({(call.call_id, call.name) for call in requests})
    uses = Counter(call.call_id for call in requests if call.call_id is not None)
    results, history = _Results({call_id for call_id, times in uses.items() if times > 1}), []
    for span in tree.spans.values():
        if not span.has_tools_in_input:
            continue
        sent = conversations.results(span)
        if sent is None:
            history.append(_MessageTools(span, span.input_messages or ()))
            results.learn(history[-1], span.start_ns)
        else:
            pairs = ((_message_call(span, call, 0), response) for call, response in sent.results)
            results.learn_pairs(pairs, sent.counts, span.start_ns)
    for span, tools in listed:
        results.learn(tools, max(span.start_ns, span.end_ns or 0))
    once = _once(requests, results)
    return Requests(requests=once, history=_history(history, once) if history else [])


def results_of_calls(messages: Sequence[Message]) -> list[JsonValue]:
    """Return the result of each call in messages, in their order: by id, else by name and order; None without one."""
    waiting = _Waiting()
    calls: list[MessageCall] = []
    for part in tool_parts(messages):
        if part["type"] == "tool_call":
            calls.append(waiting.add(_message_call(None, part, len(calls))))
        elif (answered := waiting.take(part)) is not None:
            answered.response = part
    return [call.response.get("response") if call.response else None for call in calls]


def lone_value(arguments: JsonValue) -> str | None:
    """Return the value of the only argument as text, as frameworks pass it; a bare text itself."""
    if isinstance(arguments, dict) and len(arguments) == 1:
        return text_of(next(iter(arguments.values())))
    return arguments if isinstance(arguments, str) else None


class _MessageTools:
    """The tool calls and results in a list of messages, parsed once."""

    def __init__(self, span: TraceMember, messages: Sequence[Message]) -> None:
        self._span = span
        self._messages = messages
        self.parts = list(tool_parts(messages))

    @property
    def has_calls(self) -> bool:
        """Return True if there is a call, not only results."""
        return any(part["type"] == "tool_call" for part in self.parts)

    @property
    def has_results(self) -> bool:
        """Return whether a message has the result of a tool call."""
        return any(part["type"] == "tool_call_response" for part in self.parts)

    @property
    def calls(self) -> list[MessageCall]:
        """Return the calls with their results, in order."""
        return self._exchanges[0]

    @property
    def results(self) -> list[tuple[MessageCall | None, Part]]:
        """Return the results with their calls, in order."""
        return self._exchanges[1]

    @cached_property
    def _exchanges(self) -> tuple[list[MessageCall], list[tuple[MessageCall | None, Part]]]:
        calls: list[MessageCall] = []
        results: list[tuple[MessageCall | None, Part]] = []
        waiting = _Waiting()
        for part in self.parts:
            if part["type"] == "tool_call":
                call = _message_call(self._span, part, len(calls))
                if waiting.add(call) is call:
                    calls.append(call)
            else:
                call_answered = waiting.take(part)
                if call_answered is not None:
                    call_answered.response = part
                results.append((call_answered, part))
        return calls, results

    def of_this_turn(self) -> list[MessageCall]:
        """Return the calls after the last words of the user."""
        messages = _this_turn(self._messages)
        return self.calls if len(messages) == len(self._messages) else _MessageTools(self._span, messages).calls


class _Waiting:
    """Calls of one list of messages that have no result yet."""

    def __init__(self) -> None:
        self._by_id: dict[str, deque[MessageCall]] = {}
        self._without_id: dict[str, deque[MessageCall]] = {}
        self._with_id: dict[str, deque[MessageCall]] | None = None  # by name, once a result lacks an id
        self._count = 0

    def add(self, call: MessageCall) -> MessageCall:
        """Add a call and return it. If an equal call with this id already waits, return that one and add none."""
        if call.call_id is None:
            self._without_id.setdefault(call.name, deque()).append(call)
        else:
            queue = self._by_id.setdefault(call.call_id, deque())
            repeated = next((other for other in queue if call.mark == other.mark), None)
            if repeated is not None:
                return repeated
            queue.append(call)
            if self._with_id is not None:
                self._with_id.setdefault(call.name, deque()).append(call)
        self._count += 1
        return call

    def take(self, response: Part) -> MessageCall | None:
        """Return the call of a result: by id, else the first of the name, else the only waiting one."""
        identity, name = response.get("id"), response.get("name")
        queue = self._by_id.get(identity) if isinstance(identity, str) else None
        call = queue.popleft() if queue else None
        if call is None and isinstance(name, str):
            call = self._first_of(name, is_any=identity is None)
        if call is None and self._count == 1:
            queues = (*self._without_id.values(), *self._by_id.values())
            call = next(queue.popleft() for queue in queues if queue)
        if call is not None:
            self._count -= 1
        return call

    def _first_of(self, name: str, *, is_any: bool) -> MessageCall | None:
        """Return the first waiting call of a name without an id; with `is_any`, else one with an id.

        Google's client gives ids to calls, but none to results.
        """
        queue = self._without_id.get(name)
        if queue:
            return queue.popleft()
        named = self._named().get(name) if is_any else None
        while named:
            call = named.popleft()
            waiting = self._by_id[call.call_id or ""]
            if call in waiting:
                waiting.remove(call)
                return call
        return None

    def _named(self) -> dict[str, deque[MessageCall]]:
        """Return calls with an id by name, in order; also some that have got their result."""
        if self._with_id is None:
            self._with_id = {}
            waiting = (call for queue in self._by_id.values() for call in queue)
            for call in sorted(waiting, key=lambda call: call.place):
                self._with_id.setdefault(call.name, deque()).append(call)
        return self._with_id


class _Results:
    """Results of tools in the order of their conversations; repeats in lists of messages count once.

    Results are known by call id and, for ids that several calls have, also by id, name and arguments. Those of calls
    without an id are known by name and arguments, in the order of the longest list of messages.
    """

    def __init__(self, reused: set[str]) -> None:
        """Set up with the ids that several answers of models share."""
        self._reused = reused
        self._sent: dict[_Mark, list[tuple[int, Part]]] = {}  # with the moment when a span first had each
        self._by_call: dict[tuple[str, str], deque[Part]] = {}
        self._longest = 0

    def learn(self, tools: _MessageTools, at_ns: int) -> None:
        """Note the results in a whole list of messages."""
        self.learn_pairs(tools.results, Counter(), at_ns)
        nameless = [call for call in tools.calls if call.call_id is None and call.response is not None]
        if len(nameless) > self._longest:
            self._longest = len(nameless)
            self._by_call = {}
            for call in nameless:
                if call.response is not None:
                    self._by_call.setdefault((call.name, call.key), deque()).append(call.response)

    def learn_pairs(self, pairs: Iterable[tuple[MessageCall | None, Part]], counts: Counter[_Mark], at_ns: int) -> None:
        """Note results with their calls; `counts` is the numbers of results before them in their conversation."""
        for call, response in pairs:
            for mark in self._marks(call, response):
                counts[mark] += 1
                sent = self._sent.setdefault(mark, [])
                if counts[mark] > len(sent):
                    sent.append((at_ns, response))

    def _marks(self, call: MessageCall | None, response: Part) -> set[_Mark]:
        identity = response.get("id")
        marks: set[_Mark] = {(identity,)} if isinstance(identity, str) else set()
        if call is not None and call.call_id is not None:
            marks.add((call.call_id,))
            if call.call_id in self._reused:
                marks.add(call.mark)
        return marks

    def of(self, call: MessageCall) -> Part | None:
        """Return the result of a call; equal calls without an id get their results in turn."""
        if call.call_id is None:
            waiting = self._by_call.get((call.name, call.key))
            return waiting.popleft() if waiting else None
        sent = self._sent.get((call.call_id,), ())
        later = next((response for at_ns, response in sent if at_ns > call.start_ns), None)
        # Clocks of two programs disagree, so that the only call of an id may have begun after its result was sent.
        return sent[0][1] if later is None and sent and call.call_id not in self._reused else later

    def of_equal(self, first: MessageCall) -> list[tuple[int, Part]]:
        """Return the results of all calls with the id, name and arguments of `first`, each with its first time.

        Results from before `first` was requested belong to earlier traces.
        """
        sent = self._sent.get(first.mark, [])
        return [one for one in sent if one[0] > first.start_ns] or sent


def _requested(tree: Tree, span: TraceMember, tools: _MessageTools) -> list[MessageCall]:
    """Return the calls of a span's answer; if that is the state of a whole conversation, without earlier traces' calls.

    A resumed run ends with a state that also has the earlier calls. These are in the input of its first model call.
    """
    if not tools.has_results:
        return tools.calls
    models = (one for one in tree.spans.values() if one.span_type == "llm" and one.input_messages)
    below = (one for one in models if one is span or tree.is_below(one.span_id, span.span_id))
    first = next(below, span)
    before = Counter(call.mark for call in _MessageTools(first, _this_turn(first.input_messages)).calls)
    calls = []
    for call in tools.calls:
        if before[call.mark] > 0:
            before[call.mark] -= 1
        else:
            calls.append(call)
    return calls


def requested_within(tree: Tree, history: Sequence[MessageCall]) -> list[MessageCall]:
    """Return the calls of `history`, which only inputs have, that models requested in this trace.

    If a client has no span around its requests, each request is a trace, with calls of earlier traces in its input. But
    if a span of this trace with the same turn in its input ended earlier, the calls are from its unrecorded answer.
    """
    if not history:
        return []
    latest_ns = max(call.start_ns for call in history)
    ends: dict[str, int] = {}  # by the user's text: the end of the first span with this turn in its input
    for span in tree.spans.values():
        if span.span_type not in _SENT_TO or span.end_ns is None:
            continue
        end_ns = max(span.end_ns, span.start_ns + 1)  # a span without a duration has not ended before itself
        if end_ns <= latest_ns and (words := _turn_words(span)) is not None:
            ends[words] = min(ends.get(words, end_ns), end_ns)
    calls = []
    for call in history if ends else ():
        words = _turn_words(tree.spans[call.span_id])
        if words is not None and ends.get(words, call.start_ns + 1) <= call.start_ns:
            call.known_ns = call.start_ns
            calls.append(call)
    return calls


_SENT_TO = ("llm", "agent", "chain")


def _turn_words(span: TraceMember) -> str | None:
    messages = span.input_messages or ()
    place = _turn_place(messages)
    return None if place is None else words_of(messages[place])


def _this_turn(messages: Sequence[Message] | None) -> Sequence[Message]:
    place = _turn_place(messages or ())
    return messages or () if place is None else (messages or ())[place + 1 :]


def _turn_place(messages: Sequence[Message]) -> int | None:
    """Return the index of the last message with words of the user."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if message["role"] == "user" and words_of(message) and not any(parts_by_type(message, "tool_call_response")):
            return number
    return None


def _once(requests: list[MessageCall], results: _Results) -> list[MessageCall]:
    """Return each call once, with its result.

    A call with the id, name and arguments of an earlier one is a repetition, with two exceptions. It is a new call if
    its own answer has more of such calls than were found so far. It is also one if there is a further result, and the
    earlier call's result was recorded before this call was requested.
    """
    equal: dict[_Mark, list[tuple[int, Part]]] = {}
    counts: Counter[_Mark] = Counter()
    places: Counter[tuple[str, _Mark]] = Counter()
    kept = []
    for call in requests:
        if call.call_id is not None:
            sent = equal.setdefault(call.mark, [])
            number = counts[call.mark]
            places[call.span_id, call.mark] += 1
            if number == 0:
                sent += results.of_equal(call)
            elif places[call.span_id, call.mark] <= number and not (
                number < len(sent) and sent[number - 1][0] <= call.start_ns
            ):
                continue
            counts[call.mark] += 1
            if call.response is None and sent:
                call.response = sent[number][1] if number < len(sent) else None
                kept.append(call)
                continue
        call.response = call.response or results.of(call)
        kept.append(call)
    return kept


def _history(listed: list[_MessageTools], requests: list[MessageCall]) -> list[MessageCall]:
    """Return the calls in models' inputs of this turn that no answer contains."""
    aliases = _Aliases(requests)
    known: Counter[_Mark] = Counter()
    known_ids = {(call.call_id, call.name) for call in requests}
    longest: list[MessageCall] = []
    history: list[MessageCall] = []
    for tools in listed:
        calls = aliases.new(tools.of_this_turn())
        nameless = [call for call in calls if call.call_id is None]
        longest = nameless if len(nameless) > len(longest) else longest
        here: Counter[_Mark] = Counter()
        for call in calls:
            if call.call_id is None or (call.call_id, call.name) in known_ids:
                continue
            here[call.mark] += 1
            if here[call.mark] > known[call.mark]:
                known[call.mark] += 1
                history.append(call)
    counts = Counter((call.name, call.key) for call in requests)
    for call in longest:
        if counts[call.name, call.key] > 0:
            counts[call.name, call.key] -= 1
        else:
            history.append(call)
    return history


class _Aliases:
    """Calls that occur in inputs under another id than in the answer."""

    def __init__(self, requests: list[MessageCall]) -> None:
        self._ids = {call.call_id for call in requests}
        self._by_call: dict[tuple[str, str], list[MessageCall]] = {}
        for call in requests:
            self._by_call.setdefault((call.name, call.key), []).append(call)
        self._known: dict[tuple[str | None, str, str], MessageCall | None] = {}

    def new(self, calls: list[MessageCall]) -> list[MessageCall]:
        """Return the calls of one list of messages without duplicates under another id."""
        strange = [call for call in calls if call.call_id is not None and call.call_id not in self._ids]
        if not strange:
            return calls
        here = {call.call_id for call in calls}
        taken: set[int] = set()
        renamed: set[int] = set()
        for call in strange:
            key = call.call_id, call.name, call.key
            # Decided once: a call that matches no other one when it is first sent matches none requested later.
            same = self._known[key] if key in self._known else self._original(call, here, taken)
            self._known[key] = same
            if same is not None:
                taken.add(id(same))
                renamed.add(id(call))
                if (same.call_id or "").startswith(ITEM_IDS):
                    same.call_id = call.call_id
                same.response = same.response or call.response
        return [call for call in calls if id(call) not in renamed]

    def _original(self, call: MessageCall, here: set[str | None], taken: set[int]) -> MessageCall | None:
        """Return the first call with this name and these arguments that the list does not have by its own id.

        Only a call that another span requested before counts: an equal call in the answer to the list is a retry.
        """
        for other in self._by_call.get((call.name, call.key), ())[:_MAX_ALIKE]:
            is_before = other.span_id != call.span_id and other.start_ns <= call.start_ns
            if is_before and id(other) not in taken and (other.call_id is None or other.call_id not in here):
                return other
        return None


_MAX_ALIKE = 32  # a guess: equal calls of a trace that are looked through for one that has another id


def _message_call(span: TraceMember | None, part: Part, place: int) -> MessageCall:
    call_id, name = part.get("id"), part.get("name")
    return MessageCall(
        span_id=span.span_id if span else "",
        start_ns=span.start_ns if span else 0,
        known_ns=max(span.start_ns, span.end_ns or 0) if span else 0,
        call_id=call_id if isinstance(call_id, str) and call_id else None,
        name=name if isinstance(name, str) else "",
        arguments=part.get("arguments"),
        place=place,
    )
