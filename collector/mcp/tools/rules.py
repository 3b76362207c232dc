"""Rules: their definitions, the traces that they would match, and the quality of results by day and by release."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, Field

from collector.access.permission import Permission
from collector.api.responses.alerting import QualityLineDocument
from collector.api.responses.judging import RuleDocument
from collector.mcp.client import Api, part
from collector.mcp.errors import ToolRefused
from collector.mcp.spending import asks_a_model, is_limited
from collector.mcp.tool import Arguments, Tool, ToolOutput, shows
from rules.statistics.finished import unpaired_passes
from rules.statistics.formulas.rates import newcombe_two_samples

_MOST_RULES = 500
_ALPHA = 0.05
_MOST_RELEASES = 50


class ListRules(Arguments):
    """The project of the rules."""

    project: str | None = Field(default=None, description="Only rules of this project; all by default.")


@shows(RuleDocument, "id", "name", "project", "target", "evaluator", "enabled", "sampleRate", "problem")
class ListedRule(BaseModel):
    """A rule of a list."""


class ListedRules(ToolOutput):
    """Rules, the oldest first."""

    rules: list[ListedRule]


async def list_rules(api: Api, arguments: ListRules) -> ListedRules:
    """List rules, of one project or of all."""
    where = "/api/v1/trace-eval-rules" if arguments.project is None else _rules_of(arguments.project)
    return ListedRules(rules=await api.listed(where, _MOST_RULES))


_MOST_TRIED = 50_000
"""Newest spans that a rule is tried on. With 100,000 of ten million stored ones, an answer took 343 ms."""


class TestRule(Arguments):
    """A rule to try; it is not stored."""

    project: str = Field(description="The project that it is about; * for all.")
    rule: dict[str, Any] = Field(
        description="As POST /api/v1/projects/{project}/trace-eval-rules takes it: name, target (SPAN, TRACE or "
        "SESSION), conditions [{field, op, value}], evaluator or criteria, threshold, sampleRate, …"
    )
    last_seconds: int = Field(
        default=86_400, ge=1, le=31_536_000, description="Try it on spans of this last time, the newest 50,000."
    )
    trace_id: str | None = Field(
        default=None, description="Test this trace instead, and report the condition that fails."
    )


class Tested(ToolOutput):
    """Result of a trial of a rule."""

    result: dict[str, Any]


async def test_rule(api: Api, arguments: TestRule) -> Tested:
    """Try a rule; nothing is stored, and no judge is called."""
    of_trace = arguments.trace_id is not None
    result = await api.post(
        f"{_rules_of(arguments.project)}/test",
        arguments.rule,
        trace=arguments.trace_id,
        lastSeconds=None if of_trace else arguments.last_seconds,
        newest=None if of_trace else _MOST_TRIED,
    )
    return Tested(result=result)


class CreateRule(Arguments):
    """A rule to create; it takes effect at once."""

    project: str = Field(description="The project that it is about; * for all.")
    rule: dict[str, Any] = Field(description="As for test_rule. A judge needs a budget: {callsPerDay: 1000}.")


class CreatedRule(ToolOutput):
    """The new rule."""

    rule: dict[str, Any]


async def create_rule(api: Api, arguments: CreateRule) -> CreatedRule:
    """Create a rule.

    Raises:
        ToolRefused: the rule has a judge and no budget.
    """
    if asks_a_model(arguments.rule) and not is_limited(arguments.rule.get("budget")):
        raise ToolRefused("a rule that calls a model needs a budget of its own, such as {'callsPerDay': 1000}")
    return CreatedRule(rule=await api.post(_rules_of(arguments.project), arguments.rule))


class QualityOfRule(Arguments):
    """The rule, and how to group its results."""

    rule: str = Field(description="Its name.")
    project: str | None = None
    days: int = Field(default=30, ge=1, le=3650)
    by: Literal["day", "release", "project"] = "day"
    time: Literal["trace", "judged"] = Field(
        default="trace", description="Time of the judged trace, or of the judgement."
    )


_RATE = ("passed", "results", "rate", "low", "high")


@shows(QualityLineDocument, *_RATE)
class PassRate(BaseModel):
    """The number of passes. The interval is Wilson's, of 95 %."""


@shows(
    QualityLineDocument,
    *("group", "serviceName", "fingerprint", *_RATE, "scored", "failed", "skipped", "meanScore", "costUsd"),
    "unpricedCalls",
)
class QualityLine(BaseModel):
    """Results of one evaluator in a day, release or project. The interval of the rate is Wilson's, of 95 %."""


class ShownQuality(ToolOutput):
    """Results of a rule, in numbers."""

    rule: str
    by: str
    lines: list[QualityLine]


async def quality_of_rule(api: Api, arguments: QualityOfRule) -> ShownQuality:
    """Show the sums of a rule's results by day, release or project."""
    return ShownQuality(rule=arguments.rule, by=arguments.by, lines=await _quality(api, arguments))


async def _quality(api: Api, arguments: QualityOfRule) -> Any:  # noqa: ANN401 - JSON
    document = await api.get("/api/v1/quality", **arguments.model_dump())
    if not document["lines"]:
        raise ToolRefused(f"no rule {arguments.rule!r} has results in these days; list_rules lists the names")
    return document["lines"]


class CompareReleases(Arguments):
    """The releases to compare, and the rule."""

    rule: str = Field(description="Its name.")
    baseline: str = Field(description="The release before, such as 1.4.2: a value of the rule's compareBy attribute.")
    candidate: str = Field(description="The release after.")
    service: str | None = Field(
        default=None, description="The service of the releases; required if several services have results."
    )
    project: str | None = None
    days: int = Field(default=90, ge=1, le=3650)


class ComparedReleases(ToolOutput):
    """Two releases of a service by the results of one evaluator."""

    service: str | None
    fingerprint: str | None
    baseline: PassRate
    candidate: PassRate
    difference: float = Field(description="Candidate less baseline.")
    low: float = Field(description="Lower bound of the interval of the difference (Newcombe, 95 %).")
    high: float
    p_value: float
    method: str
    verdict: Literal["better", "worse", "unclear"]


async def compare_releases(api: Api, arguments: CompareReleases) -> ComparedReleases:
    """Compare the pass rates of two releases.

    Raises:
        ToolRefused: the releases are of two services, or no evaluator with the same fingerprint judged both.
    """
    question = QualityOfRule(rule=arguments.rule, project=arguments.project, days=arguments.days, by="release")
    rows = [row for row in await _quality(api, question) if row["results"]]
    if arguments.service is not None:
        rows = [row for row in rows if row["serviceName"] == arguments.service]
    before, after = (_of_release(rows, name) for name in (arguments.baseline, arguments.candidate))
    common = [each for each in after if each in before]
    if not common:
        raise _incomparable(rows, before, after)
    chosen = max(common, key=lambda each: after[each]["results"])
    service, fingerprint = chosen
    rates = before[chosen], after[chosen]
    first, second = ((each["passed"], each["results"]) for each in rates)
    test, bounds = unpaired_passes(first, second), newcombe_two_samples(first, second)
    difference = (rates[1]["rate"] or 0.0) - (rates[0]["rate"] or 0.0)
    return ComparedReleases(
        service=service,
        fingerprint=fingerprint,
        baseline=PassRate(**rates[0]),
        candidate=PassRate(**rates[1]),
        difference=difference,
        low=bounds.low,
        high=bounds.high,
        p_value=test.p_value,
        method=test.method,
        verdict="unclear" if test.p_value >= _ALPHA else "better" if difference > 0 else "worse",
    )


_Results: TypeAlias = Mapping[tuple[str | None, str | None], dict[str, Any]]
"""Results of a release, by service and evaluator."""


def _of_release(rows: Sequence[dict[str, Any]], release: str) -> _Results:
    return {(row["serviceName"], row["fingerprint"]): row for row in rows if row["group"] == release}


def _incomparable(rows: Sequence[dict[str, Any]], before: _Results, after: _Results) -> ToolRefused:
    """Return the reason why the two releases have nothing in common to compare."""
    if before and after and not {service for service, _ in before} & {service for service, _ in after}:
        services = sorted({str(service or "") for service, _ in (*before, *after)})
        return ToolRefused("the releases are of different services, which are not compared:", {"services": services})
    known = sorted({str(row["group"]) for row in rows if row["group"]})
    return ToolRefused(
        "no evaluator judged both releases; those with results are", {"releases": known[:_MOST_RELEASES]}
    )


def _rules_of(project: str) -> str:
    return f"/api/v1/projects/{part(project)}/trace-eval-rules"


TOOLS = (
    Tool(
        name="list_rules",
        title="List rules",
        description="The rules that decide what is evaluated: target, evaluator, whether they work.",
        arguments=ListRules,
        answer=ListedRules,
        run=list_rules,
    ),
    Tool(
        name="test_rule",
        title="Try a rule",
        description="The stored spans that a rule would match, and its cost. Stores nothing and calls no judge.",
        arguments=TestRule,
        answer=Tested,
        run=test_rule,
        permission=Permission.WRITE,
        trial=True,
    ),
    Tool(
        name="quality_of_rule",
        title="Quality by a rule",
        description="Pass rates of a rule by day, release or project, with intervals, scores and costs.",
        arguments=QualityOfRule,
        answer=ShownQuality,
        run=quality_of_rule,
    ),
    Tool(
        name="compare_releases",
        title="Compare two releases",
        description="Test whether one release passes a rule less often than another, with an interval and a p-value.",
        arguments=CompareReleases,
        answer=ComparedReleases,
        run=compare_releases,
    ),
    Tool(
        name="create_rule",
        title="Create a rule",
        description="Creates a rule, effective at once; try it with test_rule first. One with a judge needs a budget.",
        arguments=CreateRule,
        answer=CreatedRule,
        run=create_rule,
        permission=Permission.WRITE,
        idempotent=False,
    ),
)
