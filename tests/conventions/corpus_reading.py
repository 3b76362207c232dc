"""The corpus through the real decoder and a real store, and the comparison of claims about it with the readings."""

import json
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from collector.conventions import unwrap
from collector.conventions.values import opened
from storage.records import AttributeValue, LogRecord, Span, SpanReading, TraceReading
from storage.store import Store
from tests.corpus.record import otlp_json
from tests.corpus.test_corpus import spans as payload_spans
from tests.storing import a_batch, commit

CORPUS = Path(__file__).parent.parent / "corpus"
SCENARIOS = sorted(path.parent for path in CORPUS.glob("*/*/expected.json"))

# Fields of a model's span, and of a tool's, that must be null if the expectation does not name them.
STRICT_MODEL = (
    "input_messages", "output_messages", "tool_name", "tool_call_id", "tool_arguments", "tool_result",
    "tool_definitions", "model", "provider", "input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens",
    "cost_usd", "session_id", "user_id", "run_id", "item_key", "error", "error_type",
)  # fmt: skip
STRICT_TOOL = (
    "tool_name", "tool_call_id", "tool_arguments", "tool_result", "tool_definitions", "input_tokens", "output_tokens",
    "cached_tokens", "reasoning_tokens", "error",
)  # fmt: skip
STRICT = {"llm": STRICT_MODEL, "embedding": STRICT_MODEL, "tool": STRICT_TOOL}
COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens")
RESULTS = ("response", "result", "tool_result")


def tenant_of(folder: Path) -> str:
    """Return the tenant of a scenario; each has its own, since two hand-written ones share a trace id."""
    return f"{folder.parent.name}-{folder.name}"


def load_corpus(store: Store) -> None:
    """Commit every scenario."""
    batches = []
    for folder in SCENARIOS:
        text = (folder / "traces.json").read_text(encoding="utf-8")
        batches.append(a_batch(otlp_json.loads(text, ExportTraceServiceRequest), tenant=tenant_of(folder)))
    commit(store, *batches)


def stored_spans(store: Store, folder: Path) -> tuple[Span, ...]:
    """Return the spans of a scenario as the store hands them out."""
    payload = json.loads((folder / "traces.json").read_text(encoding="utf-8"))
    trace_id = payload["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"]
    stored = store.queries.trace(trace_id, tenant=tenant_of(folder))
    assert stored is not None
    return stored.spans


def logs_of(folder: Path) -> list[LogRecord]:
    """Return the log records of a scenario."""
    path = folder / "logs.json"
    if not path.exists():
        return []
    request = otlp_json.loads(path.read_text(encoding="utf-8"), ExportLogsServiceRequest)
    return [
        LogRecord(
            tenant="",
            trace_id=log.trace_id.hex(),
            span_id=log.span_id.hex(),
            time_ns=log.time_unix_nano or log.observed_time_unix_nano,
            event_name=log.event_name,
            body=value_of(log.body),
            attributes={pair.key: value_of(pair.value) for pair in log.attributes},
        )
        for resource_logs in request.resource_logs
        for scope_logs in resource_logs.scope_logs
        for log in scope_logs.log_records
    ]


def value_of(value: AnyValue) -> AttributeValue:
    """Return a value of OTLP as Python has it."""
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [value_of(item) for item in value.array_value.values]
        case "kvlist_value":
            return {pair.key: value_of(pair.value) for pair in value.kvlist_value.values}
        case kind:
            content: AttributeValue = getattr(value, kind)
            return content


def expected(folder: Path) -> dict[str, Any]:
    """Load the expectation of a scenario."""
    document: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return document


def in_order(folder: Path, spans: tuple[Span, ...]) -> list[Span]:
    """Return the spans as the expectation lists them: each before those below it, siblings in the order they start."""
    by_id = {span.span_id: span for span in spans}
    return [by_id[span["spanId"]] for span in payload_spans(folder)]


def span_mistakes(claims: dict[str, Any], reading: SpanReading) -> list[str]:
    """List the fields in which the reading of a span differs from its claims."""
    mistakes = []
    for key, claim in claims.items():
        if key in ("name", "unclaimed"):
            continue
        read = _field(reading, key)
        if not _holds(key, claim, read):
            mistakes.append(f"{claims['name']}: {key} is {read!r}, not {claim!r}")
    unclaimed = {*claims.get("unclaimed", ()), *claims}
    for key in STRICT.get(claims.get("kind", ""), ()):
        if key not in unclaimed:
            read = getattr(reading, key)
            if not (read is None or read == () or (key in COUNTS and read == 0)):
                mistakes.append(f"{claims['name']}: {key} is {read!r}, and nobody told it")
    return mistakes


def trace_mistakes(claims: dict[str, Any], reading: TraceReading) -> list[str]:
    """List the fields in which the reading of a trace differs from its claims."""
    mistakes = []
    for key, claim in claims.items():
        read = [_plain(call) for call in reading.tool_calls] if key == "tool_calls" else getattr(reading, key)
        if not _holds(key, claim, read):
            mistakes.append(f"trace: {key} is {read!r}, not {claim!r}")
    return mistakes


def _field(reading: SpanReading, key: str) -> Any:
    match key:
        case "kind":
            return reading.span_type
        case "input_contains" | "output_contains":
            return getattr(reading, key.removesuffix("_contains"))
        case "tool_definitions":
            return [_plain(definition) for definition in reading.tool_definitions]
        case _:
            return getattr(reading, key)


def _plain(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _holds(key: str, claim: Any, read: Any) -> bool:
    if key in ("error", "input_contains", "output_contains"):
        return isinstance(read, str) and str(claim) in read
    if key == "provider":
        return isinstance(read, str) and read.lower() == str(claim).lower()
    if key in RESULTS:
        return _equals(_bare(claim), _bare(read))
    return _fits(claim, read)


def _fits(claim: Any, read: Any) -> bool:
    """Compare claimed keys with a value; a list must have the claimed length."""
    if isinstance(claim, dict):
        return isinstance(read, dict) and all(
            name in read and _holds(name if name in RESULTS else "", item, read[name]) for name, item in claim.items()
        )
    if isinstance(claim, list):
        if not isinstance(read, list | tuple) or len(claim) != len(read):
            return False
        return all(_fits(one, other) for one, other in zip(claim, read, strict=True))
    return _equals(claim, read)


def _equals(claim: Any, read: Any) -> bool:
    if isinstance(claim, float) and isinstance(read, int | float):
        return abs(claim - read) < 1e-12
    if isinstance(claim, dict | list):
        return _fits(claim, read)
    return bool(claim == read) or (isinstance(claim, int | float) and str(claim) == str(read))


def _bare(value: Any) -> Any:
    return unwrap.result(opened(value)).value
