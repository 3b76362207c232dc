"""Scenarios: the subject of a conversation, its simulated user, and the expected outcome."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from tracejury import personas
from tracejury.chat_model import UserTool
from tracejury.dataset import Dataset, Example
from tracejury.file_ending import ending_of
from tracejury.plain import plain
from tracejury.simulated_user import LLMSimulatedUser, ScriptedUser, SimulatedUser, UserModel

_KEYS: Final[Mapping[str, str]] = {
    "id": "key",
    "scenario": "scenario",
    "initialMessage": "initial_message",
    "expectedOutcome": "expected_outcome",
    "userTurns": "user_turns",
    "persona": "persona",
    "behaviorGuidelines": "behavior_guidelines",
    "systemPrompt": "system_prompt",
    "fixedResponses": "fixed_responses",
    "maxTurns": "max_turns",
    "expectedOutputs": "expected_outputs",
    "metadata": "metadata",
}
_LISTS: Final = frozenset({"userTurns", "fixedResponses"})
_MAPS: Final = frozenset({"expectedOutputs", "metadata"})
_OF_INPUTS: Final = frozenset(_KEYS) - {"id", "expectedOutputs", "metadata"}


@dataclass(frozen=True)
class Scenario:
    """A conversation to simulate. The user has exactly one of `user_turns` (a script), `persona` and `system_prompt`.

    `persona` is one of `personas.NAMES`, or a description in words. The expected outcome never ends a conversation; the
    prompt of a persona states it as what the user wants to reach.
    """

    scenario: str
    key: str = ""
    initial_message: str | None = None
    expected_outcome: str = ""
    user_turns: Sequence[str] = ()
    persona: str = ""
    behavior_guidelines: str = ""
    system_prompt: str = ""
    fixed_responses: Sequence[str] = ()
    max_turns: int | None = None
    expected_outputs: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        who = [bool(self.user_turns), bool(self.persona), bool(self.system_prompt)]
        if who.count(True) != 1:
            raise ValueError("a scenario needs exactly one of userTurns, persona and systemPrompt")
        if self.user_turns and self.fixed_responses:
            raise ValueError("fixedResponses and userTurns exclude each other; a script is complete by itself")

    @property
    def is_scripted(self) -> bool:
        """Return True if the user's messages are scripted, without a model."""
        return bool(self.user_turns)

    def user(self, model: UserModel | None, tools: Sequence[UserTool] = ()) -> SimulatedUser:
        """Return the simulated user.

        Raises:
            ValueError: the scenario needs a model, and `model` is None.

        """
        if self.is_scripted:
            return ScriptedUser(self.user_turns)
        if model is None:
            raise ValueError(f"the scenario {self.key or self.scenario!r} needs a model that plays its user")
        more: dict[str, Any] = {"fixed_responses": tuple(self.fixed_responses), "tools": tuple(tools)}
        if self.system_prompt:
            return LLMSimulatedUser(model, system_prompt=self.system_prompt, **more)
        if self.persona in personas.NAMES:
            return personas.named(self.persona, model, self.behavior_guidelines, **more)
        return personas.custom(model, self.persona, self.behavior_guidelines, **more)

    def turns_at_most(self, otherwise: int) -> int:
        """Return the maximum number of user messages: `max_turns`, else the length of the script, else `otherwise`."""
        scripted = len(self.user_turns) + (self.initial_message is not None)
        return self.max_turns or (scripted if self.is_scripted else otherwise)

    @property
    def digest(self) -> str:
        """Return a digest that changes with the scenario's content."""
        document = plain([self.example().model_dump(), self.max_turns])
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:16]

    def example(self) -> Example:
        """Return the scenario as an item of a dataset."""
        inputs = {name: getattr(self, of) for name, of in _KEYS.items() if name in _OF_INPUTS and getattr(self, of)}
        return Example(
            id=self.key or None, inputs=inputs, expected_outputs=self.expected_outputs, metadata=self.metadata
        )


def scenario_of(document: Any) -> Scenario:
    """Read a scenario from a JSON object, or from an item of a dataset, which has some of the keys under `inputs`.

    Raises:
        ValueError: the document is not a scenario.
    """
    if isinstance(document, Example):
        more = {"expectedOutputs": document.expected_outputs, "metadata": document.metadata}
        document = {"id": document.id, "inputs": document.inputs, **more}
    if not isinstance(document, Mapping) or not isinstance(document.get("inputs") or {}, Mapping):
        raise ValueError("a scenario is a JSON object, and so are its inputs")
    fields = {name: value for name, value in document.items() if name != "inputs" and value is not None}
    fields |= document.get("inputs") or {}
    unknown = sorted(set(fields) - set(_KEYS))
    if unknown:
        raise ValueError(f"{unknown[0]}: unknown key; there are: {', '.join(_KEYS)}")
    for name, value in fields.items():
        if not _fits(name, value):
            raise ValueError(f"{name}: not a valid value for this key")
    if not fields.get("scenario"):
        raise ValueError("scenario: required; it describes the conversation")
    return Scenario(**{_KEYS[name]: value for name, value in fields.items()})


def _fits(name: str, value: Any) -> bool:
    if name in _LISTS:
        return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
    if name in _MAPS:
        return isinstance(value, Mapping)
    if name == "maxTurns":
        return isinstance(value, int) and not isinstance(value, bool) and value > 0
    return isinstance(value, str)


def scenarios_of(documents: Sequence[Any]) -> list[Scenario]:
    """Read scenarios, and give each a unique key.

    Raises:
        ValueError: a document is not a scenario, or two have the same key; the message names it.
    """
    return keyed([_numbered(number, document) for number, document in enumerate(documents, start=1)])


def _numbered(number: int, document: Any) -> Scenario:
    try:
        return scenario_of(document)
    except ValueError as error:
        raise ValueError(f"scenario {number}: {error}") from None


def keyed(scenarios: Sequence[Scenario]) -> list[Scenario]:
    """Return the scenarios with keys: the N-th, if it has none, gets `scenario-N`.

    Raises:
        ValueError: two scenarios have the same key.
    """
    scenarios_with_keys = [
        each if each.key else replace(each, key=f"scenario-{place}") for place, each in enumerate(scenarios, 1)
    ]
    keys = [each.key for each in scenarios_with_keys]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise ValueError(f"two scenarios are called {twice}")
    return scenarios_with_keys


def read_scenarios(path: str | Path) -> list[Scenario]:
    """Return the scenarios in a file: JSON (a list, or `{"scenarios": [...]}`), or JSONL with one in each line.

    Raises:
        ValueError: the file has no list of scenarios, or a bad one.

    """
    text = Path(path).read_text(encoding="utf-8-sig")
    if ending_of(path) == "jsonl":
        documents: Any = [json.loads(line) for line in text.split("\n") if line.strip()]
    else:
        document = json.loads(text)
        documents = document.get("scenarios") if isinstance(document, dict) else document
    if not isinstance(documents, list) or not documents:
        raise ValueError(f"{path}: there is no list of scenarios in it")
    try:
        return scenarios_of(documents)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def dataset_of(name: str, scenarios: Sequence[Scenario]) -> Dataset:
    """Return scenarios as a dataset, for an experiment."""
    return Dataset(name, [each.example() for each in keyed(scenarios)])
