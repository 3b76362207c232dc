"""The evaluator: one call from a test case to an outcome, and the border where exceptions become values."""

import functools
import hashlib
import json
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from pydantic import ValidationError

from evaluators.case import require
from evaluators.configuration import Configuration
from evaluators.cutting import cut_to_fit
from evaluators.errors import BadConfiguration, EvaluationError, NotCaptured
from evaluators.judge_interface import REPLY_GRAMMAR, CostMeter, Judge
from evaluators.model import Case
from evaluators.outcome import Direction, Failure, Outcome, Skipped, Usage, Verdict
from evaluators.prompting import prompt
from evaluators.wire import explained, in_one_line

Settings = TypeVar("Settings", bound=Configuration)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Result of a check: a score and its reason."""

    score: float  # 0..1
    reason: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    vacuous: bool = False  # there was nothing to check, so the score means little
    by_less: bool = False  # some content was not captured: comparable only with assessments that lack the same


LEFT_OUT: Final = "charactersLeftOut"
"""Key of a verdict's metadata: the number of characters of the test case that the judge was not shown."""

Check: TypeAlias = Callable[[Case, Judge | None], Awaitable[Assessment]]
"""Configured check of an evaluator. It raises `EvaluationError` if no assessment is possible."""

Need: TypeAlias = Literal["never", "optional", "always"]


class Evaluator(Protocol):
    """Configured evaluator of test cases."""

    @property
    def name(self) -> str:
        """Return the name in outcomes."""

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint, equal for evaluators that judge alike: their scores are comparable."""

    @property
    def direction(self) -> Direction:
        """Return the direction of better scores."""

    async def __call__(self, case: Case) -> Outcome:
        """Judge one test case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorKind(Generic[Settings]):
    """A kind of evaluator: its name, settings, needs, and factory."""

    name: str
    title: str  # the default name of its outcomes
    version: int  # raised whenever the same configuration may score the same case differently
    checks: str  # in one sentence
    reads: tuple[str, ...]  # paths in a test case; the setting `path` applies to the first
    configuration: type[Settings]
    check: Callable[[Settings], Check]
    direction: Direction = "higher"
    judge: Callable[[Settings], Need] = lambda _: "never"
    prompts: tuple[str, ...] = ()
    asks: Callable[[Settings], tuple[str, ...]] | None = None  # the part of `prompts` that a configuration needs

    def settings(self, configuration: Mapping[str, Any]) -> Settings:
        """Return the configuration, checked.

        Raises:
            BadConfiguration: the configuration cannot be used; every wrong key is named.

        """
        try:
            return self.configuration.model_validate(configuration)
        except ValidationError as error:
            parts = explained(error, self.configuration)
            raise BadConfiguration(f"{self.name}: {in_one_line(parts)}", parts=parts) from None

    def build(
        self,
        configuration: Mapping[str, Any],
        judge: Judge | None = None,
        *,
        additions: Mapping[str, Any] = MappingProxyType({}),
    ) -> Evaluator:
        """Build the evaluator with this configuration; `additions` is part of every case.

        Raises:
            BadConfiguration: the configuration cannot be used; every wrong key is named.
        """
        settings = self.settings(configuration)
        need = self.judge(settings)
        if need == "always" and judge is None:
            raise BadConfiguration(f"{self.name}: needs a judge, and none is configured")
        used_judge = None if need == "never" else judge
        return ConfiguredEvaluator(
            name=settings.name or self.title,
            identity=_identity(self, settings, used_judge, additions),
            direction=self.direction,
            settings=settings,
            check=self.check(settings),
            judge=used_judge,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredEvaluator:
    """An evaluator of some kind, with its configuration."""

    name: str
    identity: str
    direction: Direction
    settings: Configuration
    check: Check
    judge: Judge | None

    @property
    def fingerprint(self) -> str:
        """Implements `Evaluator`. It changes once the judge's model refuses a parameter."""
        parameters = self.judge.parameters if self.judge is not None else {}
        return _fingerprint(self.identity, json.dumps(dict(parameters)))

    async def __call__(self, case: Case) -> Outcome:
        """Judge one test case."""
        meter, left_out = None, 0
        if self.judge is not None:
            meter = CostMeter(self.judge)
            case, left_out = cut_to_fit(case)
        try:
            require(case, self.settings.evaluation_params)
            assessment = await self.check(case, meter)
        except NotCaptured as lacking:
            return Skipped(name=self.name, fingerprint=self.fingerprint, reason=str(lacking), usage=_usage(meter))
        except EvaluationError as broken:
            return Failure(
                name=self.name,
                fingerprint=self.fingerprint,
                kind=broken.kind,
                message=str(broken),
                usage=_usage(meter),
                retry_after_s=getattr(broken, "retry_after_s", None),
            )
        if left_out:
            assessment = replace(assessment, metadata={**assessment.metadata, LEFT_OUT: left_out})
        return self._settle(assessment, meter)

    def _settle(self, assessment: Assessment, meter: CostMeter | None) -> Verdict | Skipped:
        """Return the verdict; a vacuous check gets the configured outcome."""
        score, reason = assessment.score, assessment.reason
        usage = _usage(meter)
        if assessment.vacuous:
            if self.settings.when_vacuous == "SKIP":
                return Skipped(name=self.name, fingerprint=self.fingerprint, reason=reason, usage=usage)
            if self.settings.when_vacuous == "FAIL":
                score = 0.0 if self.direction == "higher" else 1.0
                reason = f"{reason} (whenVacuous is FAIL)"
        if not (math.isfinite(score) and 0 <= score <= 1):
            raise ValueError(f"the score {score} is not between 0 and 1")
        return Verdict(
            name=self.name,
            fingerprint=without_content(self.fingerprint) if assessment.by_less else self.fingerprint,
            score=score,
            threshold=self.settings.threshold,
            direction=self.direction,
            reason=reason,
            metadata=assessment.metadata,
            usage=usage,
        )


async def run(evaluator: Evaluator, case: Case) -> Outcome:
    """Judge one test case; all exceptions become failures."""
    try:
        return await evaluator(case)
    except Exception as error:  # noqa: BLE001 - a broken evaluator must not stop the stream
        return Failure(
            name=evaluator.name,
            fingerprint=evaluator.fingerprint,
            kind="evaluator_error",
            message=f"{type(error).__name__}: {error}",
            usage=None,
        )


def pure(check: Callable[[Case], Assessment]) -> Check:
    """Make a check from a function that uses no judge."""

    async def asked(case: Case, _judge: Judge | None) -> Assessment:
        return check(case)

    return asked


def without_content(fingerprint: str) -> str:
    """Return the fingerprint of an evaluator that was shown less.

    Without captured content, successful calls are skipped and failed calls are judged, so pass rates with and without
    content are not comparable. Monitors compare only results of equal fingerprints.
    """
    return hashlib.sha256(f"{fingerprint} without content".encode()).hexdigest()


def _usage(meter: CostMeter | None) -> Usage | None:
    return None if meter is None else meter.usage


def _identity(
    kind: EvaluatorKind[Any], settings: Configuration, judge: Judge | None, additions: Mapping[str, Any]
) -> str:
    """Return all that a score depends on, as JSON without defaults."""
    prompts = kind.prompts if kind.asks is None else kind.asks(settings)
    identity: dict[str, Any] = {
        "type": kind.name,
        "version": kind.version,
        "configuration": settings.model_dump(
            mode="json", by_alias=True, exclude_defaults=True, exclude=set(settings.unfingerprinted)
        ),
        "prompts": {} if judge is None else {name: prompt(name).digest for name in prompts},
        "judge": judge and judge.model,
    }
    if judge is not None:
        identity["replies"] = REPLY_GRAMMAR
    if additions:
        identity["additions"] = dict(additions)
    return json.dumps(identity)


@functools.lru_cache(maxsize=1024)
def _fingerprint(identity: str, parameters: str) -> str:
    document = json.loads(identity)
    if parameters != "{}":
        document["parameters"] = json.loads(parameters)
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
