"""Error detectors, argument matchers and matching strategies that are functions.

They are called in this process. The program reads JSON, so the case is rewritten to contain their decisions.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tracejury.plain import contained, plain
from tracejury.score import named

Decide = Callable[..., bool]
Rewrite = Callable[[dict[str, Any]], None]

_CAMEL: Final = {
    "error_detector": "errorDetector",
    "argument_matcher": "argumentMatcher",
    "argument_matchers": "argumentMatchers",
    "matching_strategy": "matchingStrategy",
    "tool_calls_key": "toolCallsKey",
    "expected_tool_calls_key": "expectedToolCallsKey",
    "retrieved_key": "retrievedKey",
    "expected_key": "expectedKey",
}


@dataclass
class Decisions:
    """The functions of a configuration, the configuration without them, and how they rewrite a case."""

    config: dict[str, Any]
    names: list[str] = field(default_factory=list)
    rewrites: list[Rewrite] = field(default_factory=list)

    def case(self, case: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the case with the results of the functions, which are called.

        Raises:
            TypeError: a function returns neither True nor False.
        """
        if not self.rewrites:
            return case
        rewritten: dict[str, Any] = plain(case)
        for rewrite in self.rewrites:
            rewrite(rewritten)
        return rewritten

    def fingerprint(self, of_program: str | None) -> str | None:
        """Return the fingerprint of the evaluator with the names and versions of its functions."""
        if of_program is None or not self.names:
            return of_program
        return hashlib.sha256(json.dumps([of_program, *self.names]).encode()).hexdigest()

    def take(self, key: str, function: Decide) -> None:
        """Register a function under its key."""
        of = named(function)
        self.names.append(f"{key}={of.name}" if of.version is None else f"{key}={of.name}@{of.version}")


def decisions(evaluator: str, config: Mapping[str, Any]) -> Decisions:
    """Take the functions out of a configuration.

    Raises:
        ValueError: a function is given for a setting that does not accept one, or beside `path`.
    """
    taken = Decisions({_CAMEL.get(key, key): value for key, value in config.items()})
    for take in _TAKERS.get(evaluator, ()):
        take(taken)
    left = next(_functions("", taken.config), None)
    if left is not None:
        raise ValueError(f"{left}: {evaluator} calls no function here")
    if taken.names and taken.config.get("path") is not None:
        raise ValueError("path: not allowed with a function, which gets whole values; let it read the path itself")
    return taken


def _functions(place: str, value: Any) -> Iterator[str]:
    """Yield the places of functions, except judges."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if place or key != "judge":
                yield from _functions(f"{place}.{key}" if place else str(key), each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _functions(f"{place}[{index}]", each)
    elif callable(value):
        yield place


def _take_detector(taken: Decisions) -> None:
    detector = taken.config.get("errorDetector")
    if not callable(detector):
        return
    del taken.config["errorDetector"]
    taken.take("errorDetector", detector)

    def rewrite(case: dict[str, Any]) -> None:
        for call in _calls(case["actualOutputs"], taken.config.get("toolCallsKey")):
            result = call.get("result")
            text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False, separators=(",", ":"))
            if result is not None and text.strip() and _decided(detector, text):
                call["metadata"] = {**(call.get("metadata") or {}), "isError": True}

    taken.rewrites.append(rewrite)


def _take_matchers(taken: Decisions) -> None:
    """Take matchers: an expected call gets its number as its only argument, a call those of the calls it matches."""
    default, by_tool = taken.config.get("argumentMatcher"), dict(taken.config.get("argumentMatchers") or {})
    functions = {tool: each for tool, each in by_tool.items() if callable(each)}
    if callable(default):
        taken.take("argumentMatcher", default)
        taken.config["argumentMatcher"] = "SUBSET"
    for tool, function in functions.items():
        taken.take(f"argumentMatchers.{tool}", function)
        taken.config["argumentMatchers"] = by_tool = by_tool | {tool: "SUBSET"}
    if not taken.names:
        return

    def rewrite(case: dict[str, Any]) -> None:
        expected = list(_calls(case["expectedOutputs"], taken.config.get("expectedToolCallsKey")))
        expected_arguments = [call.get("arguments") for call in expected]
        for call in _calls(case["actualOutputs"], taken.config.get("toolCallsKey")):
            function = function_of(call)
            if function is not None:
                call["arguments"] = {
                    str(number): True
                    for number, (each, arguments) in enumerate(zip(expected, expected_arguments, strict=True))
                    if each.get("name") == call.get("name") and _decided(function, arguments, call.get("arguments"))
                }
        for number, call in enumerate(expected):
            if function_of(call) is not None:
                call["arguments"] = {str(number): True}

    def function_of(call: Mapping[str, Any]) -> Decide | None:
        tool = str(call.get("name"))
        return functions.get(tool) or (default if callable(default) and tool not in by_tool else None)

    taken.rewrites.append(rewrite)


def _take_repetition(taken: Decisions) -> None:
    """Take the matcher of repeated calls: calls of a tool that match the same earlier call get the same arguments."""
    matcher = taken.config.get("argumentMatcher")
    if not callable(matcher):
        return
    del taken.config["argumentMatcher"]
    taken.take("argumentMatcher", matcher)

    def rewrite(case: dict[str, Any]) -> None:
        first: dict[Any, list[Any]] = {}
        for call in _calls(case["actualOutputs"], taken.config.get("toolCallsKey")):
            known, arguments = first.setdefault(call.get("name"), []), call.get("arguments")
            alike = next((n for n, each in enumerate(known) if _decided(matcher, each, arguments)), len(known))
            if alike == len(known):
                known.append(arguments)
            call["arguments"] = {"alike": alike}

    taken.rewrites.append(rewrite)


def _take_strategy(taken: Decisions) -> None:
    """Take the strategy: a retrieved item becomes a text with the numbers of the relevant items that it matches."""
    strategy = taken.config.get("matchingStrategy")
    if not callable(strategy):
        return
    taken.take("matchingStrategy", strategy)
    taken.config["matchingStrategy"] = "byContainment"

    def rewrite(case: dict[str, Any]) -> None:
        outputs, retrieved_key = case["actualOutputs"], taken.config.get("retrievedKey", "retrieved")
        expected, expected_key = case["expectedOutputs"], taken.config.get("expectedKey", "relevant")
        if outputs.get(retrieved_key) is None or expected.get(expected_key) is None:
            return
        numbers: dict[str, int] = {}
        retrieved, relevant = _items(outputs[retrieved_key], numbers), _items(expected[expected_key], numbers)
        outputs[retrieved_key] = [
            f"{number}:" + "".join(f"<{n}>" for n, each in relevant if n == number or _decided(strategy, item, each))
            for number, item in retrieved
        ]
        expected[expected_key] = [f"<{number}>" for number, _ in relevant]

    taken.rewrites.append(rewrite)


def _items(value: Any, numbers: dict[str, int]) -> list[tuple[int, Any]]:
    items = value if isinstance(value, list) else [value]
    return [(numbers.setdefault(json.dumps(item, sort_keys=True), len(numbers)), item) for item in items]


def _calls(outputs: Any, key: str | None) -> Iterator[dict[str, Any]]:
    calls = outputs.get(key or "toolCalls") if isinstance(outputs, dict) else None
    return (each for each in calls if isinstance(each, dict)) if isinstance(calls, list) else iter(())


def _decided(function: Decide, *values: Any) -> bool:
    with contained():
        decision = function(*values)
    if not isinstance(decision, bool):
        raise TypeError(f"{named(function).name} returns True or False, not {type(decision).__name__}")
    return decision


_TAKERS: Final[Mapping[str, Sequence[Callable[[Decisions], None]]]] = {
    "tool_error": (_take_detector,),
    "tool_correctness": (_take_matchers,),
    "tool_trajectory": (_take_matchers,),
    "tool_efficiency": (_take_repetition,),
    "precision": (_take_strategy,),
    "recall": (_take_strategy,),
}
