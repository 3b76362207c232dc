"""Request parameters of a model call, such as the temperature, under the names of all instrumentations."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from storage.records import MAX_COUNT, AttributeValue, number_in


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestParameters:
    """Parameters of a request besides its messages; None: missing, or not a number."""

    temperature: float | None
    top_p: float | None
    max_output_tokens: int | None
    reasoning_effort: str | None


_PREFIXES: Final = ("gen_ai.request.", "llm.request.", "ai.settings.", "llm.")
_OBJECTS: Final = (
    "llm.invocation_parameters",
    "langfuse.observation.model.parameters",
    "model_request_parameters",
    "gcp.vertex.agent.llm_request",
)
_INSIDE: Final = ("", "config", "generation_config", "model_settings")
_TEMPERATURE: Final = ("temperature",)
_TOP_P: Final = ("top_p", "topP")
_MOST: Final = (
    "max_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "maxTokens",
    "maxOutputTokens",
    "max_tokens_to_sample",
)
_EFFORT: Final = ("reasoning_effort", "reasoning.effort", "reasoningEffort")
_MOST_CHARACTERS: Final = 1 << 20  # of an object that is looked into; a guess


def request_parameters(attributes: Mapping[str, AttributeValue]) -> RequestParameters:
    """Return the request parameters among the attributes of a span."""
    maps = list(_parameter_maps(attributes))
    most = _number(maps, _MOST)
    effort = next((value for value in _values(maps, _EFFORT) if isinstance(value, str) and value), None)
    return RequestParameters(
        temperature=_number(maps, _TEMPERATURE),
        top_p=_number(maps, _TOP_P),
        max_output_tokens=int(most) if most is not None and 1 <= most <= MAX_COUNT else None,
        reasoning_effort=effort,
    )


def _parameter_maps(attributes: Mapping[str, AttributeValue]) -> Iterator[Mapping[str, object]]:
    """Yield maps of parameters, strongest first."""
    for prefix in _PREFIXES:
        yield {key.removeprefix(prefix): value for key, value in attributes.items() if key.startswith(prefix)}
    for name in _OBJECTS:
        whole = _object(attributes.get(name))
        for inside in _INSIDE:
            parameters = whole if not inside else whole.get(inside)
            if isinstance(parameters, Mapping):
                yield parameters


def _object(value: AttributeValue) -> Mapping[str, object]:
    if isinstance(value, str) and len(value) <= _MOST_CHARACTERS and value.lstrip()[:1] == "{":
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return {}
        return decoded if isinstance(decoded, dict) else {}
    return value if isinstance(value, Mapping) else {}


def _values(maps: list[Mapping[str, object]], names: tuple[str, ...]) -> Iterator[object]:
    return (each[name] for each in maps for name in names if name in each)


def _number(maps: list[Mapping[str, object]], names: tuple[str, ...]) -> float | None:
    for value in _values(maps, names):
        if isinstance(value, bool):
            continue
        if isinstance(value, int | float):
            number = float(value)
        elif isinstance(value, str) and (spelled := number_in(value)) is not None:
            number = spelled
        else:
            continue
        if number == number and abs(number) != float("inf"):  # noqa: PLR0124 - NaN differs from itself
            return number
    return None
