"""The agents of the sample: their traces, step by step.

The attribute names are sample data, as instrumented applications send them. The server does not read spans by it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from opentelemetry.trace import SpanKind
from opentelemetry.util.types import AttributeValue

_MODEL: Final = "gpt-5-mini"


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSpan:
    """A span of the sample, with times in ms since the start of its trace."""

    name: str
    kind: SpanKind = SpanKind.INTERNAL
    from_ms: int
    to_ms: int
    attributes: Mapping[str, AttributeValue]
    steps: "tuple[SampleSpan, ...]" = ()
    error: Exception | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleApplication:
    """An application with one trace, whose id never changes: examples in documents name it."""

    trace_id: str
    service_name: str
    version: str
    scope: str
    scope_version: str
    about: str
    root: SampleSpan


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _text(role: str, content: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def _call(tool: str, arguments: object) -> dict[str, object]:
    part = {"type": "tool_call", "id": f"call_{tool}", "name": tool, "arguments": arguments}
    return {"role": "assistant", "parts": [part], "finish_reason": "tool_call"}


def _answer(tool: str, response: object) -> dict[str, object]:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": f"call_{tool}", "response": response}]}


def agent_step(agent: str, prompt: str, answered: str, to_ms: int, steps: tuple[SampleSpan, ...]) -> SampleSpan:
    """Return the span of an agent with its prompt, its answer and its steps."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": agent,
        "gen_ai.conversation.id": f"conv-{agent}-17",
        "gen_ai.input.messages": _json([_text("user", prompt)]),
        "gen_ai.output.messages": _json([_text("assistant", answered)]),
    }
    return SampleSpan(name=f"invoke_agent {agent}", from_ms=0, to_ms=to_ms, attributes=attributes, steps=steps)


def _chat(
    from_ms: int,
    to_ms: int,
    messages: Sequence[object],
    answer: object,
    tokens: tuple[int, int],
    tools: Sequence[object] = (),
) -> SampleSpan:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": _MODEL,
        "gen_ai.response.model": f"{_MODEL}-2026-08-07",
        "gen_ai.request.temperature": 0.2,
        "gen_ai.usage.input_tokens": tokens[0],
        "gen_ai.usage.output_tokens": tokens[1],
        "gen_ai.input.messages": _json(messages),
        "gen_ai.output.messages": _json([answer]),
    }
    if tools:
        attributes["gen_ai.tool.definitions"] = _json(tools)
    return SampleSpan(name=f"chat {_MODEL}", kind=SpanKind.CLIENT, from_ms=from_ms, to_ms=to_ms, attributes=attributes)


def tool_step(from_ms: int, to_ms: int, name: str, arguments: object, result: object = None) -> SampleSpan:
    """Return the span of a tool call."""
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": f"call_{name}",
        "gen_ai.tool.call.arguments": _json(arguments),
    }
    if result is not None:
        attributes["gen_ai.tool.call.result"] = _json(result)
    return SampleSpan(name=f"execute_tool {name}", from_ms=from_ms, to_ms=to_ms, attributes=attributes)


def _tool(name: str, description: str, properties: Mapping[str, object]) -> dict[str, object]:
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    return {"type": "function", "name": name, "description": description, "parameters": schema}


_ORDER: Final = {"type": "string", "pattern": "^[0-9]{4,}$"}
_SHOP_TOOLS: Final = (
    _tool("get_order", "Finds an order by its number.", {"order_id": _ORDER}),
    _tool(
        "create_return",
        "Makes a return label for an order.",
        {"order_id": _ORDER, "reason": {"type": "string", "enum": ["damaged", "wrong item", "changed mind"]}},
    ),
)


def _support() -> SampleApplication:
    question = "My order 4711 arrived with a broken lamp. Can I send it back?"
    answered = "Sorry about the lamp! I made a return label for order 4711; the 39.90 € come back within five days."
    order = {"order_id": "4711", "status": "delivered", "items": [{"sku": "LAMP-2", "price_eur": 39.9}]}
    label = {"label_id": "RT-20931", "carrier": "DHL"}
    damaged = {"order_id": "4711", "reason": "damaged"}
    messages: list[object] = [_text("system", "You help the customers of a lamp shop."), _text("user", question)]
    find = _call("get_order", {"order_id": "4711"})
    with_order = [*messages, find, _answer("get_order", order)]
    make = _call("create_return", damaged)
    made = [*with_order, make, _answer("create_return", label)]
    steps = (
        _chat(4, 612, messages, find, (214, 19), _SHOP_TOOLS),
        tool_step(615, 663, "get_order", {"order_id": "4711"}, order),
        _chat(666, 1190, with_order, make, (297, 24), _SHOP_TOOLS),
        tool_step(1193, 1371, "create_return", damaged, label),
        _chat(1374, 2087, made, _text("assistant", answered), (356, 41), _SHOP_TOOLS),
    )
    return SampleApplication(
        trace_id="f8d18f56aac69da52ff48aa312bf2c4d",
        service_name="support-agent",
        version="2.3.1",
        scope="opentelemetry.instrumentation.openai_agents_v2",
        scope_version="0.4.0",
        about="an agent that calls two tools and answers",
        root=agent_step("support", question, answered, 2090, steps),
    )


def _documents() -> SampleApplication:
    question = "How long are deleted traces kept?"
    answered = "Deleted traces are gone at once; traces that are not deleted expire after 30 days."
    texts = (
        "Every trace carries an expiry stamp, by default 30 days after it arrived.",
        "Deleting a trace removes its spans, jobs and results in one transaction.",
    )
    passages: dict[str, AttributeValue] = {}
    for rank, text in enumerate(texts):
        place = f"retrieval.documents.{rank}.document"
        passages |= {f"{place}.id": f"docs-{rank}", f"{place}.content": text, f"{place}.score": 0.91 - rank / 10}
    prompt = f"Answer from these passages only:\n\n{texts[0]}\n\n{texts[1]}\n\nQuestion: {question}"
    embed = {"openinference.span.kind": "EMBEDDING", "embedding.model_name": "text-embedding-3-small"}
    retrieve = {"openinference.span.kind": "RETRIEVER", "input.value": question, **passages}
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
        SampleSpan(
            name="retrieve",
            from_ms=2,
            to_ms=131,
            attributes=retrieve,
            steps=(SampleSpan(name="embed", from_ms=5, to_ms=88, attributes={**embed, "input.value": question}),),
        ),
        SampleSpan(name="ChatCompletion", kind=SpanKind.CLIENT, from_ms=135, to_ms=984, attributes=complete),
    )
    chain = {"openinference.span.kind": "CHAIN", "input.value": question, "output.value": answered}
    chain |= {"input.mime_type": "text/plain", "output.mime_type": "text/plain", "session.id": "session-8"}
    return SampleApplication(
        trace_id="cc517eb1e9d1e6602882cbd9b05e0821",
        service_name="docs-assistant",
        version="1.0.4",
        scope="openinference.instrumentation.openai",
        scope_version="0.1.30",
        about="a question answered from retrieved documents",
        root=SampleSpan(name="answer_question", from_ms=0, to_ms=987, attributes=chain, steps=steps),
    )


def _travel() -> SampleApplication:
    question = "Find me a flight from Vienna to Lisbon next Friday."
    answered = "I could not reach the airline just now. Please try again in a few minutes."
    arguments = {"origin": "VIE", "destination": "LIS", "date": "2026-11-27"}
    messages: list[object] = [_text("user", question)]
    search = _call("search_flights", arguments)
    failed = [*messages, search, _answer("search_flights", {"error": "airline API timed out"})]
    request: dict[str, AttributeValue] = {
        "http.request.method": "GET",
        "url.full": "https://api.airline.example/v2/flights",
        "server.address": "api.airline.example",
        "error.type": "TimeoutError",
    }
    late = TimeoutError("the airline API did not answer within 3 s")
    call = SampleSpan(name="GET", kind=SpanKind.CLIENT, from_ms=760, to_ms=3761, attributes=request, error=late)
    steps = (
        _chat(3, 754, messages, search, (131, 27)),
        replace(tool_step(758, 3764, "search_flights", arguments), steps=(call,), error=late),
        _chat(3767, 4402, failed, _text("assistant", answered), (189, 18)),
    )
    return SampleApplication(
        trace_id="7015e25e36583e6b06e2d605ae4a208b",
        service_name="travel-agent",
        version="0.9.0",
        scope="opentelemetry.instrumentation.langchain",
        scope_version="0.61.0",
        about="an agent whose tool fails, with the exception",
        root=agent_step("travel", question, answered, 4405, steps),
    )


SUPPORT, DOCUMENTS, TRAVEL = _support(), _documents(), _travel()
