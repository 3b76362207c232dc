"""Outcomes of an evaluation: a verdict, a failure, or skipped because there was nothing to judge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Direction: TypeAlias = Literal["higher", "lower"]
"""The direction of better scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Usage of judging. A sum is None if one of its terms is unknown."""

    calls: int
    model: str | None  # as the endpoint names it; of several the latest, of a jury all
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    latency_ms: float

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            model=other.model or self.model,
            input_tokens=_sum(self.input_tokens, other.input_tokens),
            output_tokens=_sum(self.output_tokens, other.output_tokens),
            cost_usd=None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd,
            latency_ms=self.latency_ms + other.latency_ms,
        )

    def to_document(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return {
            "calls": self.calls,
            "model": self.model,
            "inputTokens": self.input_tokens,
            "outputTokens": self.output_tokens,
            "costUsd": self.cost_usd,
            "latencyMs": self.latency_ms,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A score with its reason, and whether it is good enough in the evaluator's direction."""

    name: str
    fingerprint: str
    score: float  # 0..1
    threshold: float
    direction: Direction
    reason: str
    metadata: Mapping[str, Any]
    usage: Usage | None  # None if no judge was called

    @property
    def success(self) -> bool:
        """Return True if the score reaches the threshold, or does not exceed it if lower is better."""
        return self.score >= self.threshold if self.direction == "higher" else self.score <= self.threshold

    def to_document(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return _document(self.name, "verdict", self.fingerprint, self.usage) | {
            "score": self.score,
            "threshold": self.threshold,
            "success": self.success,
            "reason": self.reason,
            "metadata": dict(self.metadata),
            "direction": self.direction,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An evaluation that broke. It has no score, as nothing is known about the judged output."""

    name: str
    fingerprint: str | None  # None if the evaluator could not even be built
    kind: str
    message: str
    usage: Usage | None
    retry_after_s: float | None = None  # as the judge's endpoint asked; not part of the document

    def to_document(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return _document(self.name, "failure", self.fingerprint, self.usage) | {
            "reason": self.message,
            "failure": {"kind": self.kind, "message": self.message},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """An evaluation that had nothing to judge."""

    name: str
    fingerprint: str
    reason: str
    usage: Usage | None

    def to_document(self) -> dict[str, Any]:
        """Return the shape on the wire."""
        return _document(self.name, "skipped", self.fingerprint, self.usage) | {"reason": self.reason}


Outcome: TypeAlias = Verdict | Failure | Skipped


def _document(name: str, outcome: str, fingerprint: str | None, usage: Usage | None) -> dict[str, Any]:
    return {
        "name": name,
        "outcome": outcome,
        "score": None,
        "threshold": None,
        "success": None,
        "reason": None,
        "metadata": {},
        "fingerprint": fingerprint,
        "usage": usage and usage.to_document(),
        "failure": None,
        "direction": None,
    }


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
