"""Quality of rules' results: aggregated for charts, and one by one for details."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from storage import sql
from storage.alerting.counted_scores import SCORES
from storage.alerting.monitors import RuleKey
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.records import Grouping

Step: TypeAlias = Literal["hour", "day", "week", "month"]
Worst: TypeAlias = Literal["lowest", "highest"]


class ScoreBucket(NamedTuple):
    """Results with scores from `point` / 32 to less than (`point` + 1) / 32."""

    point: int
    scored: int
    above: int  # sum of offsets from the lower bound, in units of 1/65536


class Latest(NamedTuple):
    """Project of a rule's latest result, and the rule's latest name."""

    project: str | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDay:
    """Results of a rule about a project on one day, by one evaluator."""

    project: str | None
    rule_id: str
    rule: str
    day_us: int
    fingerprint: str | None
    scored: int
    failed: int
    skipped: int
    passed: int
    not_passed: int
    score_sum: float
    cost_usd: float
    unpriced_calls: int  # judge calls of unknown cost
    last_us: int  # time of the latest result


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOfResults:
    """Results of a rule that agree in their day, release or project, and in their evaluator."""

    group: str | None
    service: str | None  # the release's service
    fingerprint: str | None
    scored: int
    failed: int
    skipped: int
    passed: int
    not_passed: int
    mean_score: float | None
    cost_usd: float
    unpriced_calls: int  # judge calls of unknown cost


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRule:
    """Selection of a rule's results, by its id or name; None matches every project, or every tenant."""

    rule: str
    from_us: int
    project: str | None
    tenant: str | None
    judged: bool = False  # use the time of the judgement, not of the judged span or trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Selection of counted results, and the time by which they are grouped."""

    judged: bool = False  # use the time of the judgement, not of the judged span or trace
    counted: bool = False  # only scores that monitors count: each target's first one, none of a backfill


AS_STARTED: Final = Basis()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Results of a rule about a project that agree in their step of time, evaluator, service and release."""

    at_us: int  # start of the step
    fingerprint: str | None
    service: str | None = None
    release: str | None
    scored: int
    counted: int = 0  # the part of `scored` that monitors count
    failed: int
    skipped: int
    passed: int
    not_passed: int
    cost_usd: float  # includes superseded results
    unpriced_calls: int = 0  # judge calls of unknown cost
    threshold: float | None = None
    first_number: int = 0  # number of the first result; times are not unique
    first_us: int
    last_us: int
    summed: int = 0  # the part of `scored` of which only the sum is known
    score_sum: float = 0.0  # the sum of the scores of `summed`
    points: tuple[ScoreBucket, ...] = ()  # histogram of the other scores, as far as they are from 0 to 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultCriteria:
    """Filter of a rule's results; None matches all. Scores are from `low` to less than `high`."""

    from_us: int | None = None
    to_us: int | None = None
    fingerprint: str | None = None
    service: str | None = None  # "" selects results without a service
    release: str | None = None
    unreleased: bool = False  # only results without a release
    outcome: str | None = None
    passed: bool | None = None
    low: float | None = None
    high: float | None = None
    judged: bool = False  # see `Basis`
    counted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OneResult:
    """One result."""

    trace_id: str
    span_id: str | None
    session_id: str | None  # the judged session; `trace_id` is its latest trace
    outcome: str
    score: float | None
    passed: bool | None
    reason: str | None
    error_kind: str | None
    service: str | None
    release: str | None
    fingerprint: str | None
    cost_usd: float | None
    created_us: int
    started_us: int | None  # start of the judged span or trace; None if unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoresOf:
    """Selection of scores: releases of a service, and an evaluator; "" is not a service."""

    fingerprint: str
    service: str
    releases: tuple[str, ...]


class Quality:
    """Read-only queries about results. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def streams(self, *, from_us: int, tenant: str = "", judged: bool = False) -> list[StreamDay]:
        """Return results since the day of an instant, of every rule and project; by project, rule and day.

        The day is that of the judged span, trace or session, or with `judged` that of the judgement.
        """
        parameters = {"from_us": from_us, "tenant": tenant, "judged": judged}
        return [StreamDay(**row) for row in self._rows(sql.query("quality_streams"), parameters)]

    def groups(self, of: OfRule, *, by: Grouping, limit: int) -> list[GroupOfResults]:
        """Return a rule's results since the day of an instant, summed by day, release or project; latest first."""
        parameters = asdict(of) | {"by": by, "limit": limit}
        return [GroupOfResults(**row) for row in self._rows(sql.query("quality_of_rule"), parameters)]

    def tenants(self, *, limit: int) -> list[str]:
        """Return the tenants that have results, by name; "" stands for spans without a tenant."""
        return [row["tenant"] for row in self._rows(sql.query("quality_tenants"), {"limit": limit})]

    def latest(self, rule_id: str, *, tenant: str = "") -> Latest | None:
        """Return the project of a rule's latest result, and the rule's latest name; None without results."""
        rows = self._rows(sql.query("latest_result_of_rule"), {"rule_id": rule_id, "tenant": tenant})
        return Latest(**rows[0]) if rows else None

    def steps(self, key: RuleKey, *, from_us: int, step: Step, basis: Basis = AS_STARTED) -> list[Cell]:
        """Return a rule's results in a project since an instant, in the order of their steps."""
        parameters = {"from_us": from_us, "step": step, **asdict(basis)}
        rows = self._rows(sql.query("quality_steps"), key._asdict() | parameters)
        return [Cell(**(row | {"points": tuple(ScoreBucket(**each) for each in row["points"] or ())})) for row in rows]

    def results(
        self, key: RuleKey, criteria: ResultCriteria, *, worst: Worst | None = None, offset: int = 0, limit: int = 50
    ) -> list[OneResult]:
        """Return a rule's results in a project one by one, latest first, or those with the worst scores.

        With `lowest`, results that did not pass come first.
        """
        page = {"worst": worst, "offset": offset, "limit": limit}
        by_others = criteria.fingerprint is not None and criteria.fingerprint.startswith(SCORES)
        select = sql.query("scores_of_question") if by_others else sql.query("quality_results")
        return [OneResult(**row) for row in self._rows(select, key._asdict() | asdict(criteria) | page)]

    def scores(
        self, key: RuleKey, of: ScoresOf, *, from_us: int, each: int, basis: Basis = AS_STARTED
    ) -> dict[str, list[float]]:
        """Return the scores from 0 to 1 of the latest `each` results of each release, by one evaluator."""
        named = asdict(of) | {"releases": list(of.releases)}
        parameters = named | {"from_us": from_us, "each": each} | asdict(basis)
        scores: dict[str, list[float]] = {release: [] for release in of.releases}
        for row in self._rows(sql.query("quality_scores"), key._asdict() | parameters):
            scores[row["release"]].append(row["score"])
        return scores

    def _rows(self, select: str, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        with self._database.cursor() as cursor:
            rows: list[dict[str, Any]] = arrow_table(cursor, select, dict(parameters)).to_pylist()
            return rows
