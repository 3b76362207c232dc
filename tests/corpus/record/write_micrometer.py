"""Spring AI and LangChain4j as their sources say they are: hand-written, for no Java is at hand to record them.

Both report through Micrometer, which makes every value a text. Attributes are those of Spring AI's
AiObservationAttributes and ToolCallingObservationDocumentation, and of LangChain4j's ChatModelDocumentation.
"""

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.corpus.record import expect, otlp_json, script
from tests.corpus.record.expect import Expected, trace
from tests.corpus.record.recording import CORPUS

TRACE = "5b8efff798038103d269b633813fc60c"
START = 1_700_000_000_000_000_000
SCHEMA = expect.as_text(script.TOOL_PARAMETERS)


def span(number: int, parent: int, name: str, **attributes: str) -> dict[str, Any]:
    """Return one span; underscores in pairs are dots in the attribute's name."""
    fields: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(START + number * 1_000_000),
        "endTimeUnixNano": str(START + 100_000_000 - number * 1_000_000),
        "attributes": [_attribute(key.replace("__", "."), value) for key, value in attributes.items()],
        "status": {},
    }
    return fields | ({"parentSpanId": f"{parent:016x}"} if parent else {})


def chat(number: int, parent: int, question: str, turn: int, **attributes: str) -> dict[str, Any]:
    """Return one answer of the model, without its content."""
    return span(
        number,
        parent,
        f"chat {script.CHAT_MODEL}",
        gen_ai__operation__name="chat",
        gen_ai__system="openai",
        gen_ai__request__model=script.CHAT_MODEL,
        gen_ai__response__model=script.CHAT_MODEL_DATED,
        gen_ai__response__id=f"chatcmpl-{question[:2]}-{turn}",
        **attributes,
    )


def spring() -> tuple[list[dict[str, Any]], Expected]:
    """Return a chat client that calls a tool, with the arguments and the result opted in."""
    question = script.WEATHER
    client = span(
        1,
        0,
        "spring_ai chat_client",
        gen_ai__operation__name="framework",
        gen_ai__system="spring_ai",
        spring__ai__kind="chat_client",
        spring__ai__chat__client__stream="false",
        spring__ai__chat__client__conversation__id=script.SESSION,
        spring__ai__chat__client__tool__names=f'["{script.TOOL}"]',
    )
    tool = span(
        3,
        1,
        f"tool_call {script.TOOL}",
        gen_ai__operation__name="framework",
        gen_ai__system="spring_ai",
        spring__ai__kind="tool_call",
        spring__ai__tool__definition__name=script.TOOL,
        spring__ai__tool__definition__description=script.TOOL_DESCRIPTION,
        spring__ai__tool__definition__schema=SCHEMA,
        spring__ai__tool__call__id=script.OSLO.id,
        spring__ai__tool__call__arguments=expect.as_text(script.OSLO.arguments),
        spring__ai__tool__call__result=expect.as_text(script.OSLO.result),
    )
    answers = [chat(2 + 2 * turn, 1, question, turn, **_spring_usage(question, turn)) for turn in (0, 1)]
    lost = {"input": None, "output": None, "input_messages": None, "output_messages": None, "tool_definitions": None}
    read = expect.spans(
        {"name": "spring_ai chat_client", "kind": "chain", "session_id": script.SESSION},
        expect.llm(f"chat {script.CHAT_MODEL}", question, 0, **lost),
        expect.tool(f"tool_call {script.TOOL}", script.OSLO, unclaimed=["provider", "tool_definitions"]),
        expect.llm(f"chat {script.CHAT_MODEL}", question, 1, **lost),
        dialect="spring_ai",
    )
    nothing: Expected = {"input": None, "output": None, "final_response": None}
    whole = trace(question, session=script.SESSION, **nothing)
    return [client, answers[0], tool, answers[1]], {"spans": read, "trace": whole}


def langchain4j() -> tuple[list[dict[str, Any]], Expected]:
    """Return two calls of a model below an application's span: the second fails."""
    tokens = script.ANSWERS[script.CAPITAL][0].tokens
    name = f"chat {script.CHAT_MODEL}"
    used = {"input_tokens": str(tokens.input), "output_tokens": str(tokens.output)}
    answered = chat(2, 1, script.CAPITAL, 0, outcome="SUCCESS", **used)
    failed = chat(3, 1, script.REFUSED, 0, outcome="ERROR", error="BadRequestException")
    for attribute in failed["attributes"]:
        if attribute["key"] == "gen_ai.response.model":
            attribute["value"] = {"stringValue": "unknown"}
    lost: dict[str, Any] = {"input": None, "output": None, "input_messages": None, "output_messages": None}
    refused: Expected = {"name": name, "kind": "llm", "model": script.CHAT_MODEL, "provider": "openai"}
    refused["error_type"] = "BadRequestException"
    read = expect.spans(expect.application(), expect.llm(name, script.CAPITAL, **lost), refused, dialect="langchain4j")
    whole = trace(input_tokens=tokens.input, output_tokens=tokens.output)
    return [span(1, 0, "POST /ask"), answered, failed], {"spans": read, "trace": whole}


def write(dialect: str, scope: str, spans: list[dict[str, Any]], expected: Expected) -> None:
    """Write one scenario in the form of the recorded ones."""
    resource = {"attributes": [_attribute("service.name", dialect), _attribute("telemetry.sdk.language", "java")]}
    scoped = {"scope": {"name": scope}, "spans": spans}
    text = otlp_json.pretty({"resourceSpans": [{"resource": resource, "scopeSpans": [scoped]}]})
    folder = CORPUS / dialect / "hand-written"
    folder.mkdir(parents=True, exist_ok=True)
    request = otlp_json.loads(text, ExportTraceServiceRequest)
    (folder / "traces.json").write_text(otlp_json.dumps(request), encoding="utf-8")
    (folder / "expected.json").write_text(otlp_json.pretty(expected), encoding="utf-8")


def main() -> None:
    """Write both."""
    write("spring-ai", "org.springframework.boot", *spring())
    write("langchain4j", "io.micrometer.tracing", *langchain4j())


def _spring_usage(question: str, turn: int) -> dict[str, str]:
    tokens = script.ANSWERS[question][turn].tokens
    return {
        "gen_ai__usage__input_tokens": str(tokens.input),
        "gen_ai__usage__output_tokens": str(tokens.output),
        "gen_ai__usage__total_tokens": str(tokens.input + tokens.output),
        "gen_ai__response__finish_reasons": '["TOOL_CALLS"]' if script.ANSWERS[question][turn].calls else '["STOP"]',
    }


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


if __name__ == "__main__":
    main()
