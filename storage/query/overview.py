"""Overview of a time window: outcomes of traces, usage of models, failures of spans, results of rules."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.read_database import ReadDatabase
from storage.query.trace_shape import TraceShapes
from storage.rates import pass_rate

_ROWS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class GlanceAt:
    """Time window from `from_ns` to `until_ns`, compared with `before_ns` to `from_ns`, and filters (None: all)."""

    before_ns: int
    from_ns: int
    until_ns: int
    project: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSums:
    """Sums over traces that began in a time window, or in one step of it, counted from 0."""

    step: int | None
    traces: int
    failed: int
    latencies_ms: Sequence[float] | None  # 50th, 95th and 99th percentile; None if no trace has ended
    cost_usd: float | None
    tokens: int

    @property
    def error_rate(self) -> float | None:
        """Return the share of traces with a failed span."""
        return self.failed / self.traces if self.traces else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSums:
    """Sums over one model's calls."""

    model: str
    calls: int
    calls_before: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureSums:
    """Spans of one name that failed."""

    name: str
    failed: int
    failed_before: int
    traces: int
    error_type: str | None  # of the latest failed span


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSums:
    """Results of one evaluator of a rule in a project."""

    rule_id: str
    rule: str
    project: str | None
    fingerprint: str | None
    passed: int
    not_passed: int
    broken: int
    skipped: int
    passed_before: int
    not_passed_before: int
    last_us: int

    @property
    def rate(self) -> float | None:
        """Return the share that passed."""
        return pass_rate(self.passed, self.not_passed)

    @property
    def rate_before(self) -> float | None:
        """Return the share that passed in the window before."""
        return pass_rate(self.passed_before, self.not_passed_before)


_NOTHING: Final = StepSums(step=None, traces=0, failed=0, latencies_ms=None, cost_usd=None, tokens=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """Sums of a time window, and of the window before."""

    now: StepSums
    before: StepSums
    steps: Sequence[StepSums]  # only steps in which a trace began
    models: Sequence[ModelSums]
    failures: Sequence[FailureSums]
    rules: Sequence[RuleSums]


class Overview:
    """Read-only queries about a time window. Thread-safe."""

    def __init__(self, database: ReadDatabase) -> None:
        self._database = database
        self.shapes = TraceShapes(database)

    def glance(self, at: GlanceAt, *, step_ns: int) -> Glance:
        """Return the sums over a time window, for traces also in steps of `step_ns` nanoseconds."""
        window = asdict(at)
        sums: dict[bool, StepSums] = {}
        steps: list[StepSums] = []
        for row in self._rows(sql.query("glance_at_traces"), window | {"step_ns": step_ns}):
            is_now = row.pop("is_now")
            if row["step"] is None:
                sums[is_now] = StepSums(**row)
            else:
                steps.append(StepSums(**row))
        some = window | {"rows": _ROWS}
        return Glance(
            now=sums.get(True, _NOTHING),
            before=sums.get(False, _NOTHING),
            steps=steps,
            models=[ModelSums(**row) for row in self._rows(sql.query("glance_at_models"), some)],
            failures=[FailureSums(**row) for row in self._rows(sql.query("glance_at_failures"), some)],
            rules=[RuleSums(**row) for row in self._rows(sql.query("glance_at_rules"), window)],
        )

    def _rows(self, select: str, parameters: dict[str, object]) -> list[dict[str, Any]]:
        with self._database.snapshot() as cursor:
            rows: list[dict[str, Any]] = arrow_table(cursor, select, parameters).to_pylist()
        return rows
