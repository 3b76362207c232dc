"""OTLP log requests: small ones for a claim, random ones for property tests, and how they are read plainly."""

import json
from base64 import b64decode
from typing import Any

from google.protobuf import json_format
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collector.otlp.decode import Decoded, Request, decode
from collector.otlp.signals import LOGS
from storage.ingest.batch import SpanBatch
from tests.otlp_requests import any_ids, any_values, attribute_lists, counts, span_ids, texts, times, trace_ids
from tests.storing import RECEIVED_AT_US, START_NS, span_id, trace_id

MESSAGE = "gen_ai.user.message"


def a_log(number: int = 0, *, trace: int = 0, span: int = 0, at_ns: int = START_NS, **fields: Any) -> LogRecord:
    """Build a log record to be kept, which holds its number; `fields` replace others."""
    record = LogRecord(
        trace_id=bytes.fromhex(trace_id(trace)),
        span_id=bytes.fromhex(span_id(span)),
        time_unix_nano=at_ns + number if at_ns else 0,
        event_name=MESSAGE,
        body=AnyValue(string_value=f"message {number}"),
    )
    for name, value in fields.items():
        record.ClearField(name)  # type: ignore[arg-type] # one of its fields
        record.MergeFrom(LogRecord(**{name: value}))
    return record


def a_log_export(*records: LogRecord, project: str = "shop") -> ExportLogsServiceRequest:
    """Build a request with these records."""
    resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=project))])
    scope = ScopeLogs(scope=InstrumentationScope(name="instrumentation"), log_records=records)
    return ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=resource, scope_logs=[scope])])


def some_logs(count: int, *, first: int = 0, **options: Any) -> ExportLogsServiceRequest:
    """Return a request with consecutive records of one span."""
    return a_log_export(*(a_log(number, **options) for number in range(first, first + count)))


def decoded_logs(*bodies: bytes | ExportLogsServiceRequest, tenant: str = "") -> Decoded:
    """Return the requests as one decoded group."""
    raw = [body if isinstance(body, bytes) else body.SerializeToString() for body in bodies]
    requests = [Request(body=body, signal=LOGS, tenant=tenant) for body in raw]
    return decode(requests, received_at_us=RECEIVED_AT_US)


def a_log_batch(*exports: ExportLogsServiceRequest, tenant: str = "") -> SpanBatch:
    """Return the requests as one batch."""
    return decoded_logs(*exports, tenant=tenant).batch


def flat_logs(request: ExportLogsServiceRequest) -> list[tuple[ResourceLogs, ScopeLogs, LogRecord]]:
    """Return every log record with its resource and scope, in the order of the request."""
    return [
        (resource_logs, scope_logs, record)
        for resource_logs in request.resource_logs
        for scope_logs in resource_logs.scope_logs
        for record in scope_logs.log_records
    ]


def event_name_of(record: LogRecord) -> str:
    """Return the name of the event: the field, else the text of the last attribute of that name."""
    names = [pair.value.string_value for pair in record.attributes if pair.key == "event.name"]
    return record.event_name or (names[-1] if names else "")


def is_kept(record: LogRecord) -> bool:
    """Return whether the record is one to keep."""
    ids = len(record.trace_id) == 16 and any(record.trace_id) and len(record.span_id) == 8 and any(record.span_id)
    return bool(ids) and event_name_of(record).startswith("gen_ai.")


def logs_as_json(request: ExportLogsServiceRequest) -> bytes:
    """Return the request in OTLP/JSON, with the ids in hex."""
    document = json_format.MessageToDict(request, use_integers_for_enums=True)
    for resource_logs in document.get("resourceLogs", []):
        for scope_logs in resource_logs.get("scopeLogs", []):
            for record in scope_logs.get("logRecords", []):
                for name in {"traceId", "spanId"} & record.keys():
                    record[name] = b64decode(record[name]).hex()
    return json.dumps(document).encode()


_named = st.sampled_from([MESSAGE, "gen_ai.choice", "gen_ai."])
_other_names = st.sampled_from(["", "app.started", "gen_ai", "GEN_AI.choice"]) | texts
_named_by_attribute = st.builds(
    KeyValue,
    key=st.just("event.name"),
    value=st.builds(AnyValue, string_value=_named | _other_names) | st.none() | any_values,
)


def _records(ids: st.SearchStrategy[bytes], own: st.SearchStrategy[bytes], names: Any) -> st.SearchStrategy[LogRecord]:
    return st.builds(
        LogRecord,
        trace_id=ids,
        span_id=own,
        time_unix_nano=times,
        observed_time_unix_nano=times,
        severity_number=st.integers(0, 24) | st.just(99),
        severity_text=texts,
        event_name=names,
        body=st.none() | any_values,
        attributes=st.lists(st.one_of(attribute_lists, st.lists(_named_by_attribute, max_size=2)), max_size=2).map(
            lambda lists: [pair for pairs in lists for pair in pairs]
        ),
        dropped_attributes_count=counts,
        flags=counts,
    )


kept_records = _records(trace_ids, span_ids, _named)
all_records = kept_records | _records(any_ids, any_ids, _named | _other_names)


def log_requests(records: st.SearchStrategy[LogRecord]) -> st.SearchStrategy[ExportLogsServiceRequest]:
    """Return requests of up to two resources with up to two scopes with up to three records each."""
    scopes = st.builds(InstrumentationScope, name=texts, version=texts, attributes=attribute_lists)
    scope_logs = st.builds(
        ScopeLogs, scope=st.none() | scopes, log_records=st.lists(records, max_size=3), schema_url=texts
    )
    resource_logs = st.builds(
        ResourceLogs,
        resource=st.none() | st.builds(Resource, attributes=attribute_lists),
        scope_logs=st.lists(scope_logs, max_size=2),
        schema_url=texts,
    )
    return st.builds(ExportLogsServiceRequest, resource_logs=st.lists(resource_logs, max_size=2))
