"""Scenarios of the model server of recorded programs: answers are numbered, so that each field is unique."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.corpus.record.script import Answer, Tokens, ToolCall
from tests.programs.apps import shop

MODEL_DATE = "2026-09-09"
THOUGHT = r"Thinking \d+: the user wants stock; weigh it\."
REFUSAL = "I will not do evil"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of a request, whatever the protocol: its role, its text, the ids of calls, and results by call id."""

    role: str
    text: str = ""
    calls: Sequence[str] = ()
    results: Mapping[str, object] = field(default_factory=dict)  # as the program sent them


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request for an answer, whatever the protocol."""

    model: str
    entries: Sequence[Entry]
    tools: Sequence[str]
    id_prefix: str  # of the ids of calls

    @property
    def prompt(self) -> str:
        """Return the last text of the user."""
        return next((entry.text for entry in reversed(self.entries) if entry.role == "user" and entry.text), "")

    @property
    def system(self) -> str:
        """Return the instructions."""
        return "\n\n".join(entry.text for entry in self.entries if entry.role == "system")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request, its answer, and when it was answered."""

    number: int
    scenario: str
    request: Request
    answer: Answer
    at_ns: int


@dataclass(slots=True)
class World:
    """The model, and the requests that it received."""

    exchanges: list[Exchange] = field(default_factory=list)

    def answer(self, request: Request, at_ns: int) -> Exchange:
        """Answer as the scenario of the last prompt says, at the step that the conversation has reached."""
        number = len(self.exchanges) + 1
        scenario, turn = _progress(request)
        steps = SCENARIOS[scenario]
        answer = steps[min(turn, len(steps) - 1)](_Step(number, request))
        exchange = Exchange(number=number, scenario=scenario, request=request, answer=answer, at_ns=at_ns)
        self.exchanges.append(exchange)
        return exchange


@dataclass(frozen=True, slots=True)
class _Step:
    number: int
    request: Request

    def answer(self, *calls: ToolCall, text: str = "", reasoning: bool = False, **more: Any) -> Answer:
        """Return an answer with the numbers of this step."""
        number = self.number
        thought = f"Thinking {number}: the user wants stock; weigh it." if reasoning else ""
        tokens = Tokens(
            input=50_000 + 101 * number,
            output=20_000 + 17 * number,
            cached=3_001 + 7 * number,
            reasoning=901 + 3 * number if reasoning else 0,
        )
        model = f"{self.request.model}-{MODEL_DATE}"
        return Answer(text=text, calls=calls, reasoning=thought, tokens=tokens, model=model, **more)

    def text(self) -> str:
        return f"Answer {self.number}: grüne Schläuche – 12 € each, “ok”?"  # noqa: RUF001 - not ASCII on purpose

    def stock(self, index: int = 0) -> ToolCall:
        arguments: dict[str, object] = {"item": f"garden hose {self.number}", "warehouse": "Linz"}
        return self._call(index, "lookup_stock", arguments, shop.lookup_stock(f"garden hose {self.number}", "Linz"))

    def order(self, index: int = 0) -> ToolCall:
        order_id = 7_000 + self.number
        arguments: dict[str, object] = {"order_id": order_id, "verbose": True}
        return self._call(index, "track_order", arguments, shop.track_order(order_id, verbose=True))

    def lost(self) -> ToolCall:
        return self._call(0, "track_order", {"order_id": 404, "verbose": False}, None)

    def other(self, arguments: dict[str, object], *prefixes: str) -> ToolCall | None:
        """Return a call of the tool that the framework adds, if it adds one."""
        names = [name for name in self.request.tools if name not in shop.TOOLS and name.startswith(prefixes or "")]
        return self._call(0, names[0], arguments, None) if names else None

    def _call(self, index: int, name: str, arguments: dict[str, object], result: object) -> ToolCall:
        name = next((tool for tool in self.request.tools if tool.endswith(f"-{name}")), name)  # of a plugin
        id_ = f"{self.request.id_prefix}_{self.number}_{index}"
        return ToolCall(id=id_, name=name, arguments=arguments, result=result)


def _text(step: _Step) -> Answer:
    if final := step.other({"answer": step.text()}, "final_answer"):
        return step.answer(final)
    return step.answer(text=step.text())


def _structured(arguments: dict[str, object]) -> Callable[[_Step], Answer]:
    def answer(step: _Step) -> Answer:
        numbered = {name: value + step.number if isinstance(value, int) else value for name, value in arguments.items()}
        call = step.other(numbered)
        return step.answer(call) if call else step.answer(text=json.dumps(numbered))

    return answer


def _handoff(step: _Step) -> Answer:
    call = step.other({}, "transfer", "handoff", "delegate")
    return step.answer(call) if call else _text(step)


SCENARIOS: Mapping[str, Sequence[Callable[[_Step], Answer]]] = {
    "plain": [_text],
    "seq-think": [
        lambda step: step.answer(step.stock(), reasoning=True),
        lambda step: step.answer(step.order(), reasoning=True),
        lambda step: step.answer(text=step.text(), reasoning=True),
    ],
    "parallel-preamble": [
        lambda step: step.answer(step.stock(0), step.order(1), text=f"Let me look {step.number}."),
        _text,
    ],
    "failtool": [lambda step: step.answer(step.lost()), _text],
    "refuse": [lambda step: step.answer(refusal=f"{REFUSAL} {step.number}.")],
    "cut": [lambda step: step.answer(text=step.text(), is_cut=True)],
    "twice": [lambda step: step.answer(step.stock(0), step.stock(1)), _text],
    "picture": [_text],
    "structured": [_structured({"item": "hose"}), _structured({"item": "hose", "units": 1_000})],
    "handoff": [_handoff, lambda step: step.answer(step.stock()), _text],
    "first": [lambda step: step.answer(step.stock()), _text],
    "second": [_text],
}
"""The answers of each scenario, in turn; the last one again if more are asked for."""


def _progress(request: Request) -> tuple[str, int]:
    """Return the scenario of the last prompt that names one, and how often the model has answered since."""
    for index in reversed(range(len(request.entries))):
        entry = request.entries[index]
        for name, prompt in shop.PROMPTS.items():
            if entry.role == "user" and prompt in entry.text:
                return name, sum(later.role == "assistant" for later in request.entries[index:])
    return "plain", 0
