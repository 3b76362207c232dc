"""Agents on the wire."""

from typing import Annotated

from collector.api.responses.base import JsonNumber
from collector.api.responses.traces import Number
from collector.api.responses.wire import From, WireDocument, doc, time_of


class AgentNumbersDocument(WireDocument):
    """Sums over the traces of an agent that began in one window of time."""

    traces: int
    traces_with_errors: Annotated[int, From("failed"), doc("Traces with a failed span.")]
    error_rate: Number
    p95_ms: Annotated[JsonNumber | None, doc("The 95th percentile of the durations of traces.")]
    cost_usd: Number
    tokens: int | None
    judged: Annotated[int, doc("Traces with a verdict.")]
    passed: Annotated[int, doc("Judged traces without a failed verdict.")]
    pass_rate: Number
    evaluators: Annotated[
        str | None, doc("Equal in two windows if the same evaluators judged: compare pass rates only then.")
    ]


class WorstTraceDocument(WireDocument):
    """A trace of an agent to inspect: one with errors or failed verdicts, or else a slow one."""

    trace_id: str
    root_name: str | None
    errors: int
    failed_verdicts: int
    duration_ms: Number


class AgentDocument(WireDocument):
    """An agent: its numbers in a window of time, and in the same window a day and a week earlier."""

    project_name: Annotated[str | None, From("key", lambda key: key.project)]
    service_name: Annotated[str | None, From("key", lambda key: key.service)]
    agent_name: Annotated[
        str | None, From("key", lambda key: key.name), doc("Of the earliest agent span of its traces; null: none.")
    ]
    now: AgentNumbersDocument
    day_earlier: Annotated[AgentNumbersDocument | None, doc("Null for a window longer than a day.")]
    week_earlier: Annotated[AgentNumbersDocument, From("week")]
    worst: list[WorstTraceDocument]
    open_alert_ids: Annotated[list[str], doc("Alerts about its service that are not over.")]


class AgentList(WireDocument):
    """Agents with traces in a window of time, those with more failed traces than before first."""

    since: Annotated[str, time_of("from_ns")]
    until: Annotated[str, time_of("until_ns")]
    named: Annotated[bool, doc("False if there are too many spans to tell the agents of a service apart.")]
    agents: list[AgentDocument]
    truncated: bool
