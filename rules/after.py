"""What another rule's result must say before a rule judges: what its key `after` says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from storage.records import JsonValue

Said: TypeAlias = Literal["scored", "failed", "skipped"]
"""What may have come of the other rule's evaluation: a score, or why there is none."""

SAID: Final[tuple[Said, ...]] = ("scored", "failed", "skipped")

GOES_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "SPAN": ("SPAN",),
    "TRACE": ("TRACE", "SPAN"),
    "SESSION": ("SESSION",),
}
"""What a rule about spans, traces or sessions can go by: results about these, and of a trace also about its spans."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AfterRule:
    """The other rule, by its name or id, and what one of its results must say. None: it may say what it likes."""

    rule: str
    passed: bool | None = None
    below: float | None = None
    at_least: float | None = None
    outcome: Said = "scored"

    def document(self) -> dict[str, JsonValue]:
        """It, as JSON and YAML have it."""
        told: dict[str, JsonValue] = {
            "rule": self.rule,
            "passed": self.passed,
            "below": self.below,
            "atLeast": self.at_least,
        }
        told = {key: value for key, value in told.items() if value is not None}
        return told if self._asks_about_scores else told | {"outcome": self.outcome}

    @property
    def _asks_about_scores(self) -> bool:
        return any(each is not None for each in (self.passed, self.below, self.at_least))

    def __str__(self) -> str:
        wanted = [] if self.passed is None else ["passed" if self.passed else "did not pass"]
        wanted += [] if self.below is None else [f"scored below {self.below:.17g}"]
        wanted += [] if self.at_least is None else [f"scored at least {self.at_least:.17g}"]
        return f"after {self.rule!r} {' and '.join(wanted) or self.outcome}"
