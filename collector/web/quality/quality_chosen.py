"""Query parameters of the quality pages, and the rule, project and period that they select."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from collector.access.caller import Caller
from collector.api.access.keys import TENANT_PATTERN
from collector.api.access.tenants import tenant_of
from collector.api.base.context import Context
from collector.live.rules.active_rules import LoadedRule
from collector.web.quality import quality_numbers as numbers
from collector.web.quality.quality_numbers import PERIODS
from collector.web.questions import criteria_of
from rules.monitoring import AS_USUAL
from storage.alerting.monitors import RuleKey
from storage.alerting.quality import Basis, Cell, Step, Worst
from storage.errors import BadQuery, NotFound

Tenant: TypeAlias = Annotated[
    str | None, Field(pattern=TENANT_PATTERN), BeforeValidator(lambda sent: None if sent == "" else sent)
]
"""A tenant in an address; "" is none."""

USUAL_DAYS: Final = 30


class About(BaseModel):
    """Query parameters that all quality pages share: rule, project, tenant, period, time axis, and what counts."""

    model_config = ConfigDict(extra="ignore")

    rule: str = ""
    project: str | None = None
    tenant: Tenant = None
    days: int = USUAL_DAYS
    time: Literal["trace", "judged"] = "trace"
    counted: bool = False

    @property
    def basis(self) -> Basis:
        """Return the basis of the numbers: which results count, and by which time."""
        return Basis(judged=self.time == "judged", counted=self.counted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The rule, project, period and basis that an address requests."""

    key: RuleKey
    rule: str
    kept: LoadedRule | None  # None: it was deleted
    days: int
    basis: Basis
    now_us: int

    @property
    def from_us(self) -> int:
        """Return the start of the period."""
        return numbers.begin_us(self.now_us, self.days, self.step)

    @property
    def step(self) -> Step:
        """Return the step of the period."""
        return period_of(self.days).step

    @property
    def lower_is_better(self) -> bool:
        """Return True if a lower score is better."""
        monitoring = AS_USUAL if self.kept is None else self.kept.active.rule.monitoring
        return monitoring.settings.lower_is_better

    @property
    def worst(self) -> Worst:
        """Return which end of the scale is the worst."""
        return "highest" if self.lower_is_better else "lowest"

    @property
    def criteria(self) -> str:
        """Return the current criteria of the rule's evaluator in words; "" for a deleted rule."""
        return "" if self.kept is None else criteria_of(self.kept.active.rule)

    @property
    def overview(self) -> str:
        """Return the address of the page of all rules, for the same tenant and time."""
        params = {"days": self.days} | ({"tenant": self.key.tenant} if self.key.tenant else {}) | self._time
        return f"/quality?{urlencode(params)}"

    def link(self, path: str = "/quality", **more: object) -> str:
        """Return the address of a page about the same results."""
        about = {"project": self.key.project or "", "rule": self.key.rule_id, "days": self.days}
        params = about | {"tenant": self.key.tenant or None} | self._time
        params |= ({"counted": "1"} if self.basis.counted else {}) | more
        return f"{path}?{urlencode({name: value for name, value in params.items() if value is not None})}"

    def results(self, **more: object) -> str:
        """Return the address of the list of results."""
        return self.link("/quality/results", **more)

    def of_release(self, of: numbers.ReleaseResults, fingerprint: str, **more: object) -> str:
        """Return the address of a release's results."""
        which = {"unreleased": "1"} if of.release is None else {"release": of.release}
        return self.results(fingerprint=fingerprint, service=of.service or "", **which, **more)

    def comparison(self, before: numbers.ReleaseResults, after: numbers.ReleaseResults, fingerprint: str) -> str:
        """Return the address of the comparison of two releases of a service."""
        sides = {"baseline": before.release, "candidate": after.release}
        return self.link("/quality/compare", fingerprint=fingerprint, service=after.service or "", **sides)

    @property
    def _time(self) -> dict[str, str]:
        return {"time": "judged"} if self.basis.judged else {}

    def of_traces(self, **more: object) -> str:
        """Return the address of the list of traces with results of this rule."""
        params = {"project": self.key.project or "", "rule": self.rule, "tenant": self.key.tenant} | more
        return f"/traces?{urlencode({name: value for name, value in params.items() if value != ''})}"


def period_of(days: int) -> numbers.Period:
    """Return the period of this many days.

    Raises:
        BadQuery: the period is not offered.
    """
    period = PERIODS.get(days)
    if period is None:
        raise BadQuery(f"days: {days} is none of {', '.join(map(str, PERIODS))}")
    return period


def chosen_of(context: Context, caller: Caller, query: About) -> Chosen:
    """Resolve the rule and the project of a query: the rule by id or name, a missing project by the latest result.

    Only results about the caller's own spans are selected, or about those of the tenant that the query names.

    Raises:
        Forbidden: the caller may not see that tenant.
        NotFound: no rule has this id or name.
        BadQuery: the period is not offered.
    """
    rule, project = query.rule, query.project
    period_of(query.days)
    whose = tenant_of(caller, query.tenant)
    visible = (each for each in context.rules.kept() if each.stored.tenant in {whose, ""})
    named = [each for each in visible if rule in {each.stored.rule_id, each.stored.name}]
    fitting = [each for each in named if each.stored.project in {project, None}] or named
    kept = fitting[0] if fitting else None
    rule_id = rule if kept is None else kept.stored.rule_id
    latest = None if kept and project is not None else context.store.quality.latest(rule_id, tenant=whose)
    if kept is None and latest is None:
        raise NotFound(f"there is no rule {rule} with results")
    name = kept.stored.name if kept else latest.rule if latest else rule
    if project is None:
        about = latest.project if latest else kept.stored.project if kept else None
    else:
        about = project or None
    key = RuleKey(whose, about, rule_id)
    return Chosen(key=key, rule=name, kept=kept, days=query.days, basis=query.basis, now_us=context.now_ns() // 1_000)


def cells_of(context: Context, chosen: Chosen) -> list[Cell]:
    """Return sums of the results by time step, evaluator, service and release."""
    return context.store.quality.steps(chosen.key, from_us=chosen.from_us, step=chosen.step, basis=chosen.basis)
