"""Which rule, about which project, and how far back: what the address of a page about quality names."""

from dataclasses import dataclass
from typing import Annotated, TypeAlias
from urllib.parse import urlencode

from pydantic import BeforeValidator, Field

from collector.access.caller import Caller
from collector.api.context import Context
from collector.api.keys import TENANT_PATTERN
from collector.api.tenants import tenant_of
from collector.live.rules.rules_in_force import KeptRule
from collector.web.quality import quality_numbers as numbers
from collector.web.quality.quality_numbers import PERIODS
from rules.monitoring import AS_USUAL
from storage.alerting.monitors import RuleKey
from storage.alerting.quality import Cell, Step, Worst
from storage.errors import BadQuery, Missing

Tenant: TypeAlias = Annotated[
    str | None, Field(pattern=TENANT_PATTERN), BeforeValidator(lambda sent: None if sent == "" else sent)
]
"""A tenant that an address names; the choice of none, which is empty, names nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The rule and project that an address names, and what it asks of their results."""

    key: RuleKey
    rule: str
    kept: KeptRule | None  # None: it was deleted
    days: int
    now_us: int

    @property
    def from_us(self) -> int:
        """Since when results are looked at."""
        return numbers.begin_us(self.now_us, self.days, self.step)

    @property
    def step(self) -> Step:
        """In which steps."""
        return period_of(self.days).step

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower score is the better one."""
        monitoring = AS_USUAL if self.kept is None else self.kept.active.rule.monitoring
        return monitoring.settings.lower_is_better

    @property
    def worst(self) -> Worst:
        """Which scores are the worst."""
        return "highest" if self.lower_is_better else "lowest"

    @property
    def overview(self) -> str:
        """The page with all rules, about the same tenant and time."""
        told = {"days": self.days} | ({"tenant": self.key.tenant} if self.key.tenant else {})
        return f"/quality?{urlencode(told)}"

    def link(self, path: str = "/quality", **more: object) -> str:
        """A page about the same results."""
        about = {"project": self.key.project or "", "rule": self.key.rule_id, "days": self.days}
        told = about | {"tenant": self.key.tenant or None} | more
        return f"{path}?{urlencode({name: value for name, value in told.items() if value is not None})}"

    def results(self, **more: object) -> str:
        """The page with the results one by one."""
        return self.link("/quality/results", **more)

    def of_release(self, release: str | None, fingerprint: str, **more: object) -> str:
        """The results of a release."""
        which = {"unreleased": "1"} if release is None else {"release": release}
        return self.results(fingerprint=fingerprint, **which, **more)

    def of_traces(self, **more: object) -> str:
        """The list of traces that have such results."""
        told = {"project": self.key.project or "", "rule": self.rule, "tenant": self.key.tenant} | more
        return f"/traces?{urlencode({name: value for name, value in told.items() if value != ''})}"


def period_of(days: int) -> numbers.Period:
    """The period of so many days.

    Raises:
        BadQuery: none is offered.
    """
    period = PERIODS.get(days)
    if period is None:
        raise BadQuery(f"days: {days} is none of {', '.join(map(str, PERIODS))}")
    return period


def chosen_of(here: Context, who: Caller, rule: str, project: str | None, days: int, tenant: str | None) -> Chosen:
    """The results that an address is about; `rule` is an id or a name, and a project that it leaves out is found.

    They are those about the caller's own spans, or about those of the tenant that he names.

    Raises:
        Forbidden: he has no business with that tenant.
        Missing: there is no such rule.
        BadQuery: it asks for a time that is not offered.
    """
    period_of(days)
    whose = tenant_of(who, tenant)
    visible = (each for each in here.rules.kept() if each.stored.tenant in {whose, ""})
    named = [each for each in visible if rule in {each.stored.rule_id, each.stored.name}]
    fitting = [each for each in named if each.stored.project in {project, None}] or named
    kept = fitting[0] if fitting else None
    rule_id = rule if kept is None else kept.stored.rule_id
    latest = None if kept and project is not None else here.quality.latest(rule_id, tenant=whose)
    if kept is None and latest is None:
        raise Missing(f"there is no rule {rule} with results")
    name = kept.stored.name if kept else latest.rule if latest else rule
    if project is None:
        about = latest.project if latest else kept.stored.project if kept else None
    else:
        about = project or None
    key = RuleKey(whose, about, rule_id)
    return Chosen(key=key, rule=name, kept=kept, days=days, now_us=here.now_ns() // 1_000)


def cells_of(here: Context, chosen: Chosen) -> list[Cell]:
    """Its results, added up."""
    return here.quality.steps(chosen.key, from_us=chosen.from_us, step=chosen.step)
