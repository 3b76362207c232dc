"""An operator's own keys: attributes of a project that hold fields, but that no dialect knows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collector.conventions.prices import NO_PRICES, PriceTable
from collector.conventions.table import Slot

EVERY_PROJECT = "*"

FIELDS: dict[str, Slot] = {
    "input": "input",
    "output": "output",
    "input_messages": "input_messages",
    "output_messages": "output_messages",
    "tool_name": "tool_name",
    "tool_call_id": "tool_call_id",
    "tool_arguments": "tool_arguments",
    "tool_result": "tool_result",
    "tool_definitions": "tool_definitions",
    "model": "model",
    "provider": "provider",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cached_tokens": "cached_tokens",
    "reasoning_tokens": "reasoning_tokens",
    "finish_reason": "finish_reasons",
    "cost_usd": "cost_usd",
    "session_id": "session_id",
    "user_id": "user_id",
    "error": "error",
    "error_type": "error_type",
}
"""The fields for which an operator can set own keys. For each, `dokimos.<field>` is read, too, and overrides them."""


@dataclass(frozen=True, slots=True)
class OwnKeys:
    """Attributes that hold a field, strongest first, by project or for `*`; a project's own come before those of `*`.

    Raises `ValueError` for a field that does not exist, or whose keys are not a list or contain an empty one.
    """

    projects: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    prices: PriceTable = NO_PRICES  # prices of model calls without a reported cost

    def __post_init__(self) -> None:
        for project, fields in self.projects.items():
            for name, keys in fields.items():
                if name not in FIELDS:
                    raise ValueError(f"project {project!r}: {name!r} is not a field; there are {', '.join(FIELDS)}")
                if isinstance(keys, str) or not all(keys):
                    raise ValueError(f"project {project!r}: {name!r} needs a list of attribute keys")

    def of(self, project: str) -> list[tuple[Slot, str]]:
        """Return the fields and keys that apply to a project, strongest first."""
        if not self.projects:
            return []
        scopes = (project, EVERY_PROJECT) if project != EVERY_PROJECT else (EVERY_PROJECT,)
        return [
            (FIELDS[name], key)
            for scope in scopes
            for name, keys in self.projects.get(scope, {}).items()
            for key in keys
        ]


NO_KEYS = OwnKeys()
