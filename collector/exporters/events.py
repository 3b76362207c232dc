"""Results of evaluations as OpenTelemetry's events. Pure.

The same result is the same event, byte for byte, so that receivers can deduplicate.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ScopeLogs, SeverityNumber

from collector.otlp.encode import Attribute, key_values
from rules.marker import MARKER
from storage.judging.result_export import ExportedResult

EVENT: Final = "gen_ai.evaluation.result"
INSTANCE: Final = "tracejury.instance"
"""Attribute that names the server that made a result; the view `evaluations` leaves out this server's results."""

_DIGEST_DIGITS: Final = 12
_LONGEST_TEXT: Final = 16_384
"""Limit of an explanation: a guess at a length that every backend takes."""


def events(results: Iterable[ExportedResult], instance: str) -> ExportLogsServiceRequest:
    """Make a request with results; those of a project share a resource."""
    request = ExportLogsServiceRequest()
    scopes: dict[tuple[str, str | None], ScopeLogs] = {}
    for result in results:
        key = (result.tenant, result.project)
        scope = scopes.get(key)
        if scope is None:
            resource_logs = request.resource_logs.add()
            resource_logs.resource.attributes.extend(key_values(_resource(result)))
            scope = resource_logs.scope_logs.add(scope=InstrumentationScope(name="tracejury"))
            scopes[key] = scope
        scope.log_records.append(_record(result, instance))
    return request


def _resource(result: ExportedResult) -> Mapping[str, Attribute]:
    return {
        "service.name": "tracejury",
        "dokimos.project": result.project,
        "tracejury.tenant": result.tenant or None,
        MARKER: True,
    }


def _record(result: ExportedResult, instance: str) -> LogRecord:
    """Make the event of a result, under the judged span, the root of the trace, or that of a session's latest trace."""
    return LogRecord(
        trace_id=bytes.fromhex(result.trace_id),
        span_id=bytes.fromhex(result.span_id or result.root_span_id or ""),
        time_unix_nano=result.created_at_ns,
        observed_time_unix_nano=result.created_at_ns,
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
        event_name=EVENT,
        attributes=key_values(_attributes_of(result, instance)),
    )


def _attributes_of(result: ExportedResult, instance: str) -> Mapping[str, Attribute]:
    return {
        "gen_ai.evaluation.name": result.name,
        "gen_ai.evaluation.score.value": None if result.score is None else float(result.score),
        "gen_ai.evaluation.score.label": None if result.passed is None else "pass" if result.passed else "fail",
        "gen_ai.evaluation.explanation": None if result.reason is None else result.reason[:_LONGEST_TEXT],
        "error.type": (result.error_kind or "failed") if result.outcome == "failed" else None,
        INSTANCE: instance,
        "tracejury.number": result.number,
        "tracejury.job_id": result.job_id,
        "tracejury.target": _target(result),
        "session.id": result.session_id,
        "tracejury.outcome": result.outcome,
        "tracejury.rule": result.rule,
        "tracejury.rule_id": result.rule_id,
        "tracejury.rule_revision": result.digest[:_DIGEST_DIGITS],
        "tracejury.evaluator": result.evaluator,
        "tracejury.fingerprint": result.fingerprint,
        "tracejury.threshold": result.threshold,
        "tracejury.judge_model": result.judge_model,
        "tracejury.release": result.release,
        "tracejury.round": result.round,
        "tracejury.occasion": result.occasion,
    }


def _target(result: ExportedResult) -> str:
    if result.session_id is not None:
        return "session"
    return "trace" if result.span_id is None else "span"
