"""Monitoring of a rule's results: its key `monitor`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from rules.statistics.settings import KINDS, RANGES, Measure, MonitorSettings
from storage.records import JsonValue

NUMBERS: Final[Mapping[str, str]] = {
    "alpha": "alpha",
    "margin": "margin",
    "minResults": "minimum",
    "baseline": "baseline",
    "every": "every",
}
"""Numeric keys of `monitor`, and their names in `MonitorSettings`."""

WHOLE: Final = frozenset({"minResults", "baseline", "every"})

MOST_SCORES: Final = 20
"""The most scores of people and applications that a rule may watch. A guess."""


AlertSeverity: TypeAlias = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Monitoring:
    """Settings of the monitors of a rule's results, and the measure that they watch."""

    settings: MonitorSettings = MonitorSettings()  # noqa: RUF009 - it is frozen
    of: Measure | None = None  # None: whether results passed, or their scores if they have no pass or fail
    scores: tuple[str, ...] = ()  # questions to which answers of people and applications are watched, too
    severity: AlertSeverity = "warning"  # of the alerts

    def document(self) -> dict[str, JsonValue] | None:
        """Return the settings that differ from the defaults as a JSON or YAML document, or None."""
        usual = MonitorSettings()
        document: dict[str, JsonValue] = {
            key: getattr(self.settings, name)
            for key, name in NUMBERS.items()
            if getattr(self.settings, name) != getattr(usual, name)
        }
        if self.settings.off:
            document["off"] = True if len(self.settings.off) == len(KINDS) else next(iter(self.settings.off))
        if self.settings.lower_is_better:
            document["lowerIsBetter"] = True
        if self.of is not None:
            document["of"] = self.of
        if self.scores:
            document["scores"] = list(self.scores)
        if self.severity != "warning":
            document["severity"] = self.severity
        return document or None


AS_USUAL: Final = Monitoring()


def range_of(key: str) -> tuple[float, float]:
    """Return the range of a number."""
    return RANGES[NUMBERS[key]]
