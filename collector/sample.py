"""A small sample of agent traces, sent as an application would: through the OpenTelemetry SDK and its exporters.

The attribute names here are those of the instrumented applications that this stands in for, not a table to read by.
"""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import requests
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.util.types import AttributeValue

PROJECT = "sample"

_EXPORT_TIMEOUT_S = 5
_NS_PER_MS = 1_000_000
_MODEL = "gpt-5-mini"


class SampleNotSent(Exception):
    """The server did not take the sample; the message says over which door."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTrace:
    """One trace that was sent."""

    trace_id: str
    service_name: str
    about: str
    spans: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleReport:
    """What the server took, and over which door."""

    traces: tuple[SampleTrace, ...]
    grpc: str
    grpc_spans: int
    otlp_http: str
    otlp_http_spans: int

    @property
    def trace_ids(self) -> tuple[str, ...]:
        """The traces in the order in which they were sent."""
        return tuple(trace.trace_id for trace in self.traces)


def send_sample(*, grpc: str, otlp_http: str, key: str | None = None) -> SampleReport:
    """Send the sample to the two OTLP doors, given as `host:port`, with an API key if they ask for one.

    Raises:
        SampleNotSent: a door did not take all of its spans.
    """
    now_ns = time.time_ns()
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    with (
        closing(Watched(grpc_exporter(grpc, headers), f"gRPC to {grpc}")) as over_grpc,
        closing(Watched(_http_exporter(otlp_http, headers), f"HTTP to {otlp_http}")) as over_http,
    ):
        traces = (
            send_trace(_SUPPORT, over_grpc, now_ns - 60_000 * _NS_PER_MS),
            send_trace(_DOCUMENTS, over_http, now_ns - 40_000 * _NS_PER_MS),
            send_trace(_TRAVEL, over_grpc, now_ns - 20_000 * _NS_PER_MS),
        )
    return SampleReport(
        traces=traces,
        grpc=grpc,
        grpc_spans=over_grpc.taken,
        otlp_http=otlp_http,
        otlp_http_spans=over_http.taken,
    )


def describe(report: SampleReport, *, http: str, options: str = "", command: str = "tracejury") -> str:
    """What arrived and where to look; `options` are those that the commands need to find the server."""
    failed = report.traces[-1]
    look = (
        f"{command} traces list",
        f"{command} traces show {failed.trace_id}",
        f"{command} rules list",
        f'{command} sql "{_QUESTION}"',
    )
    lines = [
        f"A sample arrived: {report.grpc_spans} spans over gRPC and {report.otlp_http_spans} over HTTP, in",
        *(f"  {trace.trace_id}  {trace.service_name:<14}  {trace.about}" for trace in report.traces),
        f"Look at them: http://{http}",
        *(f"  {line} {options}".rstrip() for line in look),
        f"  curl 'http://{http}/api/v1/traces?project={PROJECT}'",
        "Send your own: start an application that uses the OpenTelemetry SDK with",
        f"  OTEL_EXPORTER_OTLP_ENDPOINT=http://{report.grpc} OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
        f"  OTEL_EXPORTER_OTLP_ENDPOINT=http://{report.otlp_http} OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ]
    return "\n".join(lines)


_QUESTION = "SELECT name, count(*) AS n, avg(duration_ms) AS avg_ms FROM spans GROUP BY name ORDER BY avg_ms DESC"


class Watched(SpanExporter):
    """An exporter that remembers what the batch processor would only log."""

    def __init__(self, exporter: SpanExporter, door: str) -> None:
        self._exporter = exporter
        self._door = door
        self.taken = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send, and count what was taken."""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS:
            self.taken += len(spans)
        return result

    def shutdown(self) -> None:
        """The processors of several providers share this exporter, so that `close` is what ends it."""

    def close(self) -> None:
        """Let go of the connection."""
        self._exporter.shutdown()

    def expect(self, taken: int) -> None:
        """Raise when fewer spans were taken."""
        if self.taken < taken:
            missing = taken - self.taken
            raise SampleNotSent(f"{missing} of the sample's spans were not taken over {self._door}")


def grpc_exporter(address: str, headers: dict[str, str]) -> SpanExporter:
    """What sends to the gRPC door."""
    no_proxy = (("grpc.enable_http_proxy", 0),)
    return GrpcExporter(
        endpoint=f"http://{address}",
        insecure=True,
        headers=headers,
        timeout=_EXPORT_TIMEOUT_S,
        channel_options=no_proxy,  # type: ignore[arg-type] # gRPC takes numbers, and more than one option
    )


def _http_exporter(address: str, headers: dict[str, str]) -> SpanExporter:
    session = requests.Session()
    session.trust_env = False  # the server is on this machine, a proxy is not asked
    endpoint = f"http://{address}/v1/traces"
    return HttpExporter(endpoint=endpoint, headers=headers, timeout=_EXPORT_TIMEOUT_S, session=session)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One span of the sample, with times in ms since the start of its trace."""

    name: str
    kind: SpanKind = SpanKind.INTERNAL
    from_ms: int
    to_ms: int
    attributes: Mapping[str, AttributeValue]
    steps: "tuple[_Step, ...]" = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """One application with one trace."""

    service_name: str
    version: str
    scope: str
    scope_version: str
    about: str
    root: _Step


def send_trace(application: Application, exporter: Watched, start_ns: int) -> SampleTrace:
    """Send one trace that starts then.

    Raises:
        SampleNotSent: not all of it was taken.
    """
    resource = {
        "service.name": application.service_name,
        "service.version": application.version,
        "deployment.environment.name": "production",
        "telemetry.sdk.language": "python",
        "dokimos.project": PROJECT,
    }
    provider = TracerProvider(sampler=ALWAYS_ON, resource=Resource(resource), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=512, max_export_batch_size=512))
    tracer = provider.get_tracer(application.scope, application.scope_version)
    before = exporter.taken
    trace_id = _play(tracer, application.root, start_ns, Context())
    provider.shutdown()
    spans = _count(application.root)
    exporter.expect(before + spans)
    return SampleTrace(trace_id=trace_id, service_name=application.service_name, about=application.about, spans=spans)


def _play(tracer: Tracer, step: _Step, start_ns: int, parent: Context) -> str:
    """Record a step and those inside it; returns the trace id."""
    span = tracer.start_span(
        step.name,
        context=parent,
        kind=step.kind,
        attributes=step.attributes,
        start_time=start_ns + step.from_ms * _NS_PER_MS,
    )
    for inner in step.steps:
        _play(tracer, inner, start_ns, set_span_in_context(span, parent))
    end_ns = start_ns + step.to_ms * _NS_PER_MS
    if step.error is not None:
        span.record_exception(step.error, timestamp=end_ns)
        span.set_status(Status(StatusCode.ERROR, f"{type(step.error).__name__}: {step.error}"))
    span.end(end_ns)
    return f"{span.get_span_context().trace_id:032x}"


def _count(step: _Step) -> int:
    return 1 + sum(map(_count, step.steps))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(role: str, content: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def _call(tool: str, arguments: object) -> dict[str, object]:
    part = {"type": "tool_call", "id": f"call_{tool}", "name": tool, "arguments": arguments}
    return {"role": "assistant", "parts": [part], "finish_reason": "tool_call"}


def _answer(tool: str, response: object) -> dict[str, object]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"call_{tool}", "response": response}]}


def agent_step(agent: str, asked: str, answered: str, to_ms: int, steps: tuple[_Step, ...]) -> _Step:
    """An agent that is asked and answers, with what it does in between."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": f"conv-{agent}-17",
        "gen_ai.input.messages": _json([_text("user", asked)]),
        "gen_ai.output.messages": _json([_text("assistant", answered)]),
    }
    return _Step(name=f"invoke_agent {agent}", from_ms=0, to_ms=to_ms, attributes=attributes, steps=steps)


def _chat(from_ms: int, to_ms: int, said: Sequence[object], answer: object, tokens: tuple[int, int]) -> _Step:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": _MODEL,
        "gen_ai.response.model": f"{_MODEL}-2026-08-07",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
        "gen_ai.input.messages": _json(said),
        "gen_ai.output.messages": _json([answer]),
    }
    return _Step(name=f"chat {_MODEL}", kind=SpanKind.CLIENT, from_ms=from_ms, to_ms=to_ms, attributes=attributes)


def tool_step(from_ms: int, to_ms: int, name: str, arguments: object, result: object = None) -> _Step:
    """A tool that is called."""
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": f"call_{name}",
        "gen_ai.tool.call.arguments": _json(arguments),
    }
    if result is not None:
        attributes["gen_ai.tool.call.result"] = _json(result)
    return _Step(name=f"execute_tool {name}", from_ms=from_ms, to_ms=to_ms, attributes=attributes)


def _support() -> Application:
    asked = "My order 4711 arrived with a broken lamp. Can I send it back?"
    answered = "Sorry about the lamp! I made a return label for order 4711; the 39.90 € come back within five days."
    order = {"order_id": "4711", "status": "delivered", "items": [{"sku": "LAMP-2", "price_eur": 39.9}]}
    label = {"label_id": "RT-20931", "carrier": "DHL"}
    damaged = {"order_id": "4711", "reason": "damaged"}
    said: list[object] = [_text("system", "You help the customers of a lamp shop."), _text("user", asked)]
    find = _call("get_order", {"order_id": "4711"})
    found = [*said, find, _answer("get_order", order)]
    make = _call("create_return", damaged)
    made = [*found, make, _answer("create_return", label)]
    steps = (
        _chat(4, 612, said, find, (214, 19)),
        tool_step(615, 663, "get_order", {"order_id": "4711"}, order),
        _chat(666, 1190, found, make, (297, 24)),
        tool_step(1193, 1371, "create_return", damaged, label),
        _chat(1374, 2087, made, _text("assistant", answered), (356, 41)),
    )
    return Application(
        service_name="support-agent",
        version="2.3.1",
        scope="opentelemetry.instrumentation.openai_agents_v2",
        scope_version="0.4.0",
        about="an agent that calls two tools and answers",
        root=agent_step("support", asked, answered, 2090, steps),
    )


def _documents() -> Application:
    asked = "How long are deleted traces kept?"
    answered = "Deleted traces are gone at once; traces that are not deleted expire after 30 days."
    texts = (
        "Every trace carries an expiry stamp, by default 30 days after it arrived.",
        "Deleting a trace removes its spans, jobs and results in one transaction.",
    )
    found: dict[str, AttributeValue] = {}
    for rank, text in enumerate(texts):
        place = f"retrieval.documents.{rank}.document"
        found |= {f"{place}.id": f"docs-{rank}", f"{place}.content": text, f"{place}.score": 0.91 - rank / 10}
    prompt = f"Answer from these passages only:\n\n{texts[0]}\n\n{texts[1]}\n\nQuestion: {asked}"
    embed = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "text-embedding-3-small"}
    retrieve = {"openinference.span.kind": "RETRIEVER", "input.value": asked, **found}
    complete: dict[str, AttributeValue] = {
        "openinference.span.kind": "LLM",
        "llm.model_name": _MODEL,
        "llm.provider": "openai",
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "You answer questions about the documentation.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.content": prompt,
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": answered,
        "llm.token_count.prompt": 148,
        "llm.token_count.completion": 22,
        "llm.token_count.total": 170,
    }
    steps = (
        _Step(
            name="retrieve",
            from_ms=2,
            to_ms=131,
            attributes=retrieve,
            steps=(_Step(name="embed", from_ms=5, to_ms=88, attributes={**embed, "input.value": asked}),),
        ),
        _Step(name="ChatCompletion", kind=SpanKind.CLIENT, from_ms=135, to_ms=984, attributes=complete),
    )
    chain = {"openinference.span.kind": "CHAIN", "input.value": asked, "output.value": answered}
    chain |= {"input.mime_type": "text/plain", "output.mime_type": "text/plain", "session.id": "session-8"}
    return Application(
        service_name="docs-assistant",
        version="1.0.4",
        scope="openinference.instrumentation.openai",
        scope_version="0.1.30",
        about="a question answered from retrieved documents",
        root=_Step(name="answer_question", from_ms=0, to_ms=987, attributes=chain, steps=steps),
    )


def _travel() -> Application:
    asked = "Find me a flight from Vienna to Lisbon next Friday."
    answered = "I could not reach the airline just now. Please try again in a few minutes."
    arguments = {"origin": "VIE", "destination": "LIS", "date": "2026-11-27"}
    said: list[object] = [_text("user", asked)]
    search = _call("search_flights", arguments)
    failed = [*said, search, _answer("search_flights", {"error": "airline API timed out"})]
    request: dict[str, AttributeValue] = {
        "http.request.method": "GET",
        "url.full": "https://api.airline.example/v2/flights",
        "server.address": "api.airline.example",
        "error.type": "TimeoutError",
    }
    late = TimeoutError("the airline API did not answer within 3 s")
    call = _Step(name="GET", kind=SpanKind.CLIENT, from_ms=760, to_ms=3761, attributes=request, error=late)
    steps = (
        _chat(3, 754, said, search, (131, 27)),
        replace(tool_step(758, 3764, "search_flights", arguments), steps=(call,), error=late),
        _chat(3767, 4402, failed, _text("assistant", answered), (189, 18)),
    )
    return Application(
        service_name="travel-agent",
        version="0.9.0",
        scope="opentelemetry.instrumentation.langchain",
        scope_version="0.61.0",
        about="an agent whose tool fails, with the exception",
        root=agent_step("travel", asked, answered, 4405, steps),
    )


_SUPPORT, _DOCUMENTS, _TRAVEL = _support(), _documents(), _travel()
