"""Results of jobs, as values and as the columns in which they are stored."""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, Literal, TypeAlias

import pyarrow as pa

OutcomeName: TypeAlias = Literal["scored", "failed", "skipped"]

RESULTS: Final = pa.schema(
    [
        ("job_id", pa.int64()),
        ("name", pa.string()),
        ("fingerprint", pa.string()),
        ("outcome", pa.string()),
        ("score", pa.float64()),
        ("passed", pa.bool_()),
        ("threshold", pa.float64()),
        ("reason", pa.string()),
        ("error_kind", pa.string()),
        ("metadata", pa.string()),
        ("judge_model", pa.string()),
        ("judge_calls", pa.int32()),
        ("input_tokens", pa.int64()),
        ("output_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("latency_ms", pa.float64()),
    ]
)
"""The columns of the table `evaluation` that a result has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorOutcome:
    """Result of an evaluator as it is stored: a score, or the reason for its absence."""

    name: str
    outcome: str
    score: float | None = None
    passed: bool | None = None
    threshold: float | None = None
    reason: str | None = None
    error_kind: str | None = None
    fingerprint: str | None = None
    metadata: str | None = None  # JSON
    judge_model: str | None = None
    judge_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult(EvaluatorOutcome):
    """Result of a job."""

    job_id: int
    outcome: OutcomeName


def results_table(results: Iterable[JobResult]) -> pa.Table:
    """Return the results as columns."""
    return table_of(RESULTS, results)


def table_of(schema: pa.Schema, records: Iterable[Any]) -> pa.Table:
    """Return records as columns, by the names of their fields."""
    rows = list(map(attrgetter(*schema.names), records))
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(values, column.type) for values, column in zip(columns, schema, strict=True)], schema=schema
    )
