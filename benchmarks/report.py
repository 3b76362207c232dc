"""Report of the measurements, as JSON for programs and as Markdown for the docs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.checking import Checking
from benchmarks.dashboards import Beside
from benchmarks.evaluations import Cost
from benchmarks.generator import Latencies
from benchmarks.large import Large
from benchmarks.machine import Machine
from benchmarks.matching import MatchingCost
from benchmarks.scenarios import Ingest, Scenario
from benchmarks.small import Small
from benchmarks.sustained import KINDS, Sustained

HEADLINE = "grpc-512"
BASELINE = "baseline"
HEADINGS = {"grpc": "gRPC", "http": "HTTP"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All measurements of one run; omitted ones are None or missing."""

    machine: Machine
    seconds: float
    scenarios: list[Scenario]
    baseline: Scenario | None
    overload: Scenario | None
    large: Large | None
    evaluations: list[Cost]
    matching: MatchingCost | None
    checking: list[Checking]
    dashboards: list[Beside]
    sustained: list[Sustained]
    small: Small | None

    def headline(self) -> Scenario | None:
        """Find the scenario that the baseline is compared with."""
        return next((scenario for scenario in self.scenarios if scenario.name == HEADLINE), None)


def to_json(report: Report) -> str:
    """Write every number, without the trace ids."""
    return json.dumps(dataclasses.asdict(report, dict_factory=_without_trace_ids), indent=2) + "\n"


def _without_trace_ids(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in items if name != "trace_ids"}


def to_markdown(report: Report) -> str:
    """Write the tables, ratios first."""
    return "\n".join(_lines(report))


def _lines(report: Report) -> Iterator[str]:
    headline = report.headline()
    if headline and report.baseline:
        yield from _ratios(headline, report.baseline)
    rows = [*report.scenarios, report.baseline] if report.baseline else report.scenarios
    if rows:
        yield from _loads(rows)
    if report.overload:
        yield _overload(report.overload)
        yield ""
    if report.large:
        yield from _large(report.large)
    if report.evaluations:
        yield from _evaluations(report.evaluations)
    if report.matching:
        yield from (_matching(report.matching), "")
    for checking in report.checking:
        yield from (_checking(checking), "")
    if report.dashboards:
        yield from _dashboards(report.dashboards)
    if report.sustained:
        yield from _sustained(report.sustained)
    yield from _small(report.small)
    yield _machine(report)


def _small(small: Small | None) -> Iterator[str]:
    if small is None:
        return
    yield "| load | processors | CPU, µs a span | PSS, MiB | visible after, s |"
    yield "|---|--:|--:|--:|--:|"
    yield f"| start | {small.start_cpu_s:.1f} s of CPU | - | - | - |"
    yield f"| idle | {small.idle_processors:.4f} | - | {small.idle_memory_mib:,.0f} | - |"
    for one in small.loads:
        rules = "each judged" if one.is_judged else f"{one.rules} rules"
        visible = "-" if one.visible_s is None else f"{one.visible_s:.2f}"
        yield (
            f"| {one.rate:,.0f} spans/s, {rules} | {one.processors:.3f} "
            f"| {one.cpu_s / max(one.acknowledged, 1) * 1e6:,.0f} | {one.memory_mib:,.0f} | {visible} |"
        )
    yield ""


def _sustained(rates: list[Sustained]) -> Iterator[str]:
    yield (
        "| spans | kept up for | spans/s | lag of matching, s | of sums of traces, s | answer p99, ms "
        "| CPU, all processes, µs a span | memory, MiB: a third in / at the end |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|"
    for one in rates:
        rate = f"{one.acknowledged_per_s:,.0f}" if one.kept_up else f"less than {one.rate:,.0f}"
        memory = " / ".join(f"{mib:,.0f}" for mib in one.memory_mib)
        yield (
            f"| {KINDS[one.kind]} | {one.seconds:.0f} s, {one.rules} rules | {rate} | {one.matching_lag_s:.1f} "
            f"| {one.traces_lag_s:.1f} | {one.answer_p99_ms:,.0f} | {one.cpu_us_per_span:.1f} | {memory} |"
        )
    yield ""


def _dashboards(besides: list[Beside]) -> Iterator[str]:
    yield "| beside gRPC, 512 spans a request | ingest, of without | each round | queries/s | a query, ms: p50 / max |"
    yield "|---|--:|--:|--:|--:|"
    for beside in besides:
        rounds = ", ".join(f"{ratio:.2f}" for ratio in beside.ratios)
        took = f"{beside.query_ms.p50:,.0f} / {beside.query_ms.max:,.0f}" if beside.query_ms else "none was answered"
        yield f"| {beside.what} | {beside.ratio:.2f} | {rounds} | {beside.queries_per_s:.1f} | {took} |"
    yield ""


def _matching(cost: MatchingCost) -> str:
    return (
        f"{cost.rules} rules over {cost.spans:,} spans that were read: {cost.cpu_us_per_span_and_rule:.2f} µs of CPU "
        f"a span and rule, {cost.cpu_us_per_span:.1f} a span, {cost.matched_per_s:,.0f} spans/s. Beside the storing of "
        f"{cost.stored_per_s:,.0f} spans/s all was matched {cost.lag_s:.1f} s after the last commit. "
        f"{cost.decisions:,} decisions, with the jobs that came of them, took {cost.disk_bytes_per_decision:.1f} bytes "
        "of disk each."
    )


def _checking(checking: Checking) -> str:
    each = checking.checks // checking.traces
    what = f"traces of {checking.spans_a_trace} spans, {each} of each" if checking.target == "TRACE" else "spans"
    took_us = checking.server_us + checking.child_us
    return (
        f"Checks of {what}, from jobs to evaluations in tables: {checking.per_s:,.0f} a second, "
        f"{checking.server_us:,.0f} µs of CPU a check in the server and {checking.child_us:,.0f} in the process that "
        f"checks: {took_us / checking.evaluator_us:,.1f} times what the evaluators alone take."
    )


def _evaluations(costs: list[Cost]) -> Iterator[str]:
    yield "| evaluator | 8 calls: µs a trace | traces/s on one core | 100 calls: ms a trace |"
    yield "|---|--:|--:|--:|"
    for cost in costs:
        yield (f"| `{cost.name}` | {cost.short_us:.0f} | {1e6 / cost.short_us:,.0f} | {cost.long_us / 1000:.2f} |")
    yield ""


def _ratios(ours: Scenario, plain: Scenario) -> Iterator[str]:
    """Compare so that more than 1 is always in favour of Tracejury, and less than 1 never is."""
    yield "| gRPC, 512 spans a request | Tracejury | per-span protobuf loop | times better |"
    yield "|---|--:|--:|--:|"
    costs = (
        ("server CPU, µs a span", ours.full.cpu_us_per_span, plain.full.cpu_us_per_span, ".1f"),
        ("answer p99 at half load, ms", _half_p99_ms(ours), _half_p99_ms(plain), ".0f"),
        ("disk, bytes a span", ours.disk_bytes_per_span, plain.disk_bytes_per_span, ",.0f"),
        ("peak memory, MiB", ours.peak_rss_mib, plain.peak_rss_mib, ",.0f"),
    )
    mine, other = ours.full.committed_per_s, plain.full.committed_per_s
    yield f"| committed spans/s | {mine:,.0f} | {other:,.0f} | {mine / other:.1f} |"
    for title, mine, other, form in costs:
        yield f"| {title} | {mine:{form}} | {other:{form}} | {other / mine:.1f} |"
    yield ""


def _half_p99_ms(scenario: Scenario) -> float:
    return scenario.half.acknowledgement_ms.p99 if scenario.half else float("nan")


def _loads(rows: list[Scenario]) -> Iterator[str]:
    yield (
        "| door, spans a request | server CPU, µs a span | acknowledged spans/s | committed spans/s "
        "| answer at half load, ms: p50 / p99 / max | at full load "
        "| last commit after last answer, ms: half / full load "
        "| all read after last answer, ms: half / full load, and µs a span with reading "
        "| peak memory, MiB | disk, bytes a span |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"
    for scenario in rows:
        full, half = scenario.full, scenario.half
        title = f"{HEADINGS[scenario.door]}, {scenario.spans_per_request}"
        cells = (
            f"per-span loop: {title}" if scenario.name == BASELINE else title,
            f"{full.cpu_us_per_span:.1f}",
            f"{full.acknowledged_per_s:,.0f}",
            f"{full.committed_per_s:,.0f}",
            _latencies(half.acknowledgement_ms) if half else "",
            _latencies(full.acknowledgement_ms),
            f"{half.last_commit_after_ms:.0f} / {full.last_commit_after_ms:.0f}" if half else "",
            f"{half.read_after_ms:.0f} / {full.read_after_ms:.0f}, {full.cpu_with_reading_us_per_span:.1f}"
            if half
            else "",
            f"{scenario.peak_rss_mib:,.0f}",
            f"{scenario.disk_bytes_per_span:,.0f}",
        )
        yield "| " + " | ".join(cells) + " |"
    yield ""
    troubles = [line for scenario in rows for line in _troubles(scenario)]
    yield from [*troubles, ""] if troubles else []


def _troubles(scenario: Scenario) -> Iterator[str]:
    for load, ingest in (("full", scenario.full), ("half", scenario.half)):
        if ingest and (ingest.refusals or ingest.failed):
            yield (
                f'- {scenario.name} at {load} load: {ingest.refusals} answers said "later", {ingest.failed} requests '
                f"failed. {ingest.first_failure}".rstrip()
            )


def _latencies(latencies: Latencies) -> str:
    return f"{latencies.p50:.0f} / {latencies.p99:.0f} / {latencies.max:.0f}"


def _overload(scenario: Scenario) -> str:
    full = scenario.full
    return (
        f"Overload, {scenario.senders} senders with {scenario.spans_per_request} spans a request: "
        f"{full.committed_per_s:,.0f} committed spans/s, peak memory {scenario.peak_rss_mib:,.0f} MiB, "
        f'answers {_latencies(full.acknowledgement_ms)} ms, {full.refusals} of them "later", '
        f"the slowest of all after {full.slowest_answer_ms:.0f} ms. {full.failed} requests failed."
    )


def _large(large: Large) -> Iterator[str]:
    yield f"| {large.stored_spans:,} spans stored | p50 | max | first |"
    yield "|---|--:|--:|--:|"
    for title, reads in (
        ("newest 50 traces, ms", large.newest_traces_ms),
        ("one trace, ms", large.one_trace_ms),
        (f"{large.tool_calls:,} tool calls by name, ms", large.tool_calls_ms),
    ):
        yield f"| {title} | {reads.p50:.1f} | {reads.max:.1f} | {reads.first:.1f} |"
    yield ""
    yield "| gRPC, 512 spans a request | empty file | full file | full / empty |"
    yield "|---|--:|--:|--:|"
    for title, empty, full, form in _pairs(large.empty, large.full):
        yield f"| {title} | {empty:{form}} | {full:{form}} | {full / empty:.2f} |"
    yield ""
    yield f"Peak memory {large.peak_rss_mib:,.0f} MiB, {large.disk_bytes_per_span:,.0f} bytes a span on disk."
    yield ""


def _pairs(empty: Ingest, full: Ingest) -> Iterator[tuple[str, float, float, str]]:
    yield "server CPU, µs a span", empty.cpu_us_per_span, full.cpu_us_per_span, ".1f"
    yield "committed spans/s", empty.committed_per_s, full.committed_per_s, ",.0f"
    yield "answer p99 at full load, ms", empty.acknowledgement_ms.p99, full.acknowledgement_ms.p99, ".0f"


def _machine(report: Report) -> str:
    machine = report.machine
    return (
        f"Measured for {report.seconds:g} s each on {machine.cores} cores ({machine.cpu}) with "
        f"{machine.memory_gib:.0f} GiB, {machine.system}, Python {machine.python}, DuckDB {machine.duckdb}, grpcio "
        f"{machine.grpcio}; 640 kB appended and synced in {machine.sync_ms:.1f} ms; load average before the run "
        f"{machine.load_before:.1f}. Spans of 1.2 kB, unique ids; the generator is another process on the same cores."
    )
