"""Cost of rules: twenty of them over stored spans, at once and beside ingest at a constant rate."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.spans import Requests
from collector.conventions.own_keys import NO_KEYS
from collector.live.active import ActiveRule
from collector.live.matching.matcher import Matcher
from collector.otlp.decode import Request, decode
from collector.reading.spans import ConventionsReader
from rules.rule_text import parse_rule
from rules.settling import Settling
from storage.ingest.batch import SpanBatch
from storage.ingest.writer import WriterOptions
from storage.store import Store, StoreOptions

MATCHED_SPANS: Final = 100_000
RATE: Final = 30_000  # spans a second that are stored beside matching
SPANS_A_REQUEST: Final = 512
PATIENCE_S: Final = 600.0
SETTLING: Final = Settling(after_root_s=1.0, quiet_s=2.0)

ATTRIBUTE: Final = "attributes.gen_ai.operation.name"
CONDITIONS: Final[tuple[tuple[str, str, Any], ...]] = (
    (ATTRIBUTE, "=", "chat"),
    (ATTRIBUTE, "in", ["embeddings", "rerank"]),
    ("attributes.server.address", "endsWith", ".example"),
    ("attributes.gen_ai.usage.output_tokens", ">", 895),
    ("attributes.gen_ai.request.temperature", ">=", 2),
    ("attributes.user.tier", "exists", True),
    ("resource.service.version", "=", "9.9"),
    ("name", "startsWith", "execute_tool"),
    ("name", "=", "chat gpt-5"),
    ("service", "=", "another"),
    ("status", "=", "ERROR"),
    ("duration_ms", ">", 890),
    ("span_type", "=", "retriever"),
    ("model", "glob", "claude-*-2025*"),
    ("tool_name", "=", "send_mail"),
    ("input_tokens", ">", 4_990),
    ("output", "regex", r"(?i)\brefund(s|ed)?\b.*\bdeclined\b"),
    ("input", "contains", "refund approved in full"),
)
TRACE_CONDITIONS: Final[tuple[tuple[str, str, Any], ...]] = (("status", "=", "ERROR"), ("name", "regex", "^invoke_"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingCost:
    """Cost of matching."""

    spans: int
    rules: int
    cpu_us_per_span: float
    cpu_us_per_span_and_rule: float
    matched_per_s: float  # spans, when all were there
    lag_s: float  # from the last commit to the last decision about a span, beside ingest
    stored_per_s: float  # spans, meanwhile
    decisions: int
    disk_bytes_per_decision: float


def measure_matching(directory: Path, spans: int = MATCHED_SPANS) -> MatchingCost:
    """Match spans that were read, and then as many while they are stored."""
    rules = tuple(_rules())
    batches = -(-spans // SPANS_A_REQUEST)
    requests = Requests(SPANS_A_REQUEST)
    data = directory / "matching"
    with Store.open(data, _options()) as store:
        for _ in range(batches):
            while store.overload:
                time.sleep(0.01)
            store.append([_batch(requests)])
        _wait(store.wait_committed(PATIENCE_S))
    with Store.open(data, _options()) as store:
        before = _used_bytes(store)
        began_s, cpu_s = time.perf_counter(), time.process_time()
        with _matching(store, rules) as matcher:
            _wait(matcher.wait_matched(PATIENCE_S))
            took_s = time.perf_counter() - began_s
            while _one(store, "SELECT count(*) FROM trace_open"):
                time.sleep(0.2)
        cpu_s = time.process_time() - cpu_s
    with Store.open(data, _options()) as store:
        decisions, bytes_of = _one(store, "SELECT count(*) FROM decision"), _used_bytes(store) - before
        lag_s, stored_per_s = _beside_ingest(store, rules, [_batch(requests) for _ in range(batches)])
    count = batches * SPANS_A_REQUEST
    return MatchingCost(
        spans=count,
        rules=len(rules),
        cpu_us_per_span=cpu_s / count * 1e6,
        cpu_us_per_span_and_rule=cpu_s / count / len(rules) * 1e6,
        matched_per_s=count / took_s,
        lag_s=lag_s,
        stored_per_s=stored_per_s,
        decisions=decisions,
        disk_bytes_per_decision=bytes_of / decisions,
    )


def _options() -> StoreOptions:
    return StoreOptions(writer=WriterOptions(reads=ConventionsReader(NO_KEYS)))


def _beside_ingest(store: Store, rules: tuple[ActiveRule, ...], batches: list[SpanBatch]) -> tuple[float, float]:
    """Return the seconds from the last commit to the end of matching, and the rate of spans."""
    with _matching(store, rules) as matcher:
        began_s = time.perf_counter()
        for number, batch in enumerate(batches):
            time.sleep(max(began_s + number * SPANS_A_REQUEST / RATE - time.perf_counter(), 0))
            while store.overload:
                time.sleep(0.01)
            store.append([batch])
        _wait(store.wait_committed(PATIENCE_S))
        committed_s = time.perf_counter()
        _wait(matcher.wait_matched(PATIENCE_S))
        lag_s = time.perf_counter() - committed_s
    return lag_s, len(batches) * SPANS_A_REQUEST / (committed_s - began_s)


@contextmanager
def _matching(store: Store, rules: tuple[ActiveRule, ...]) -> Iterator[Matcher]:
    matcher = Matcher(store.matching, lambda: rules, SETTLING, enqueued=lambda: None)
    matcher.start()
    try:
        yield matcher
    finally:
        matcher.close()


def _rules() -> Iterator[ActiveRule]:
    listed = [("SPAN", one) for one in CONDITIONS] + [("TRACE", one) for one in TRACE_CONDITIONS]
    for number, (target, (field, operator, value)) in enumerate(listed, start=1):
        condition = {"field": field, "op": operator, "value": value}
        document = {"name": f"rule {number}", "evaluator": "tool_error", "target": target, "conditions": [condition]}
        rule = parse_rule(json.dumps(document)).rule
        yield ActiveRule(tenant="", rule_id=str(number), revision=number, rule=rule, executor_kind="check")


def _batch(requests: Requests) -> SpanBatch:
    return decode([Request(body=requests.next().body)], received_at_us=time.time_ns() // 1000).batch


def _used_bytes(store: Store) -> int:
    return _one(store, "SELECT used_blocks * block_size FROM pragma_database_size() WHERE database_name = 'tracejury'")


def _one(store: Store, statement: str) -> int:
    ((number,),) = store.queries.sql(statement, max_rows=1, timeout_s=PATIENCE_S).rows
    return int(str(number))


def _wait(happened: bool) -> None:  # noqa: FBT001 - reads as the sentence it checks
    if not happened:
        raise TimeoutError("it takes too long")
