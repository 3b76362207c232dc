"""Agents in a time window, compared with the same window a day and a week earlier."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias, cast

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.rates import pass_rate

Earlier: TypeAlias = Literal["day", "week"]

MOST_SPANS: Final = 2_000_000
"""Maximum number of spans in the three windows for which agents are distinguished by name. Names take 90 ns of CPU a
span (measured at 245,760 spans), so at most some 0.2 s."""

_INVOKED: Final = "invoke_agent "
_DAY_NS: Final = 86_400_000_000_000
_WEEK_NS: Final = 7 * _DAY_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsAt:
    """A window of time, the same window a day and a week earlier, and filters (None: all)."""

    from_ns: int
    until_ns: int
    day_from_ns: int
    day_until_ns: int
    week_from_ns: int
    week_until_ns: int
    step_ns: int
    project: str | None
    tenant: str | None

    @classmethod
    def between(
        cls, from_ns: int, until_ns: int, *, step_ns: int, project: str | None, tenant: str | None
    ) -> "AgentsAt":
        """Return a window of at most a week. One longer than a day is not compared with a day earlier."""
        has_day = until_ns - from_ns <= _DAY_NS  # else it would be compared with a part of itself
        return cls(
            from_ns=from_ns,
            until_ns=until_ns,
            day_from_ns=from_ns - _DAY_NS if has_day else from_ns,
            day_until_ns=until_ns - _DAY_NS if has_day else from_ns,
            week_from_ns=from_ns - _WEEK_NS,
            week_until_ns=until_ns - _WEEK_NS,
            step_ns=step_ns,
            project=project,
            tenant=tenant,
        )

    @property
    def has_day(self) -> bool:
        """Return True if the window is also compared with a day earlier."""
        return self.day_from_ns < self.from_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentNumbers:
    """Sums over the traces of an agent that began in one window.

    `evaluators` is equal in two windows if the same evaluators judged.
    """

    traces: int = 0
    failed: int = 0  # traces with a failed span
    p95_ms: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    judged: int = 0  # traces with a verdict
    passed: int = 0  # judged traces without a failed verdict
    evaluators: str | None = None

    @property
    def error_rate(self) -> float | None:
        """Return the share of traces with a failed span."""
        return self.failed / self.traces if self.traces else None

    @property
    def pass_rate(self) -> float | None:
        """Return the share of judged traces without a failed verdict."""
        return pass_rate(self.passed, self.judged - self.passed)


_NONE: Final = AgentNumbers()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstTrace:
    """A trace to inspect: one with errors or failed verdicts, or else a slow one."""

    trace_id: str
    root_name: str | None
    errors: int
    failed_verdicts: int
    duration_ms: float | None


class AgentKey(NamedTuple):
    """Identity of an agent; `name` is None if no span of its traces names an agent."""

    project: str | None
    service: str | None
    name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSums:
    """An agent with traces in the window; `root_name` is None if they have several."""

    key: AgentKey
    now: AgentNumbers
    day: AgentNumbers = _NONE
    week: AgentNumbers = _NONE
    steps: Mapping[int, int] = field(default_factory=dict)  # traces that began in a step, counted from 0
    worst: Sequence[WorstTrace] = ()
    root_name: str | None = None

    @property
    def more_failed(self) -> float:
        """Return how many more traces failed than at the error rate of a day earlier, or else of a week earlier."""
        before = self.day if self.day.traces else self.week
        return self.now.failed - self.now.traces * (before.error_rate or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundAgents:
    """Agents; those that got worse are at the top. `are_named` is False if there are too many spans to search."""

    agents: Sequence[AgentSums]
    are_named: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSums:
    """Traces of a service since an instant, and those of them with a failed span."""

    project: str | None
    service: str | None
    traces: int
    failed: int


class Agents:
    """Read-only queries about agents. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database

    def find(self, at: AgentsAt) -> FoundAgents:
        """Return the agents with traces in a window, those with more failed traces than before first."""
        window = asdict(at)
        counted = {name: value for name, value in window.items() if name not in {"project", "step_ns"}}
        ((spans,),) = (row.values() for row in self._rows(sql.query("spans_of_windows"), counted))
        are_named = spans <= MOST_SPANS
        agents: dict[AgentKey, dict[str, Any]] = {}
        for row in self._rows(sql.query("agents"), window | {"names": are_named}):
            key = AgentKey(row.pop("project"), row.pop("service"), _name(row.pop("agent")))
            agents.setdefault(key, {})[row.pop("time")] = row
        sums = [_agent(key, rows) for key, rows in agents.items() if "now" in rows]
        sums.sort(key=lambda each: (-each.more_failed, -each.now.traces, [part or "" for part in each.key]))
        return FoundAgents(agents=sums, are_named=are_named)

    def since(self, since_ns: int, until_ns: int, *, project: str | None, tenant: str | None) -> list[ServiceSums]:
        """Count the traces since an instant, the services with the most failed ones first."""
        values = {"since_ns": since_ns, "until_ns": until_ns, "project": project, "tenant": tenant}
        return [ServiceSums(**row) for row in self._rows(sql.query("traces_since"), values)]

    def _rows(self, select: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
        with self._database.snapshot() as cursor:
            rows: list[dict[str, Any]] = arrow_table(cursor, select, dict(parameters)).to_pylist()
        return rows


def _name(span_name: str | None) -> str | None:
    return None if span_name is None else span_name.removeprefix(_INVOKED) or None


def _agent(key: AgentKey, rows: Mapping[str, dict[str, Any]]) -> AgentSums:
    own = rows["now"]
    earlier = cast("dict[Earlier, AgentNumbers]", {time: _numbers(row) for time, row in rows.items() if time != "now"})
    return AgentSums(
        key=key,
        now=_numbers(own),
        **earlier,
        steps=dict(own["steps"] or ()),
        worst=[WorstTrace(**each) for each in own["worst"] or ()],
        root_name=None if own["has_root_names"] else own["root_name"],
    )


def _numbers(row: Mapping[str, Any]) -> AgentNumbers:
    return AgentNumbers(**{name: row[name] for name in AgentNumbers.__dataclass_fields__})
