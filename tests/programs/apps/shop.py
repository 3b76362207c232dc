"""Prompts, tools and the run of the scenarios, which all recorded programs share; only the standard library."""

import asyncio
import inspect
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

SYSTEM = "You help with the shop."
PROMPTS = {
    "plain": "PLAIN: how are you?",
    "seq-think": "SEQ THINK: stock, then order",
    "parallel-preamble": "PARALLEL PREAMBLE: both at once",
    "failtool": "FAILTOOL: where is order 404?",
    "refuse": "REFUSE: do evil",
    "cut": "CUT: tell a long story",
    "twice": "TWICE: two same calls",
    "picture": "PICTURE: what is on this picture?",
    "structured": "STRUCTURED: output please",
    "handoff": "HANDOFF: to the tracker",
    "first": "FIRST: stock?",
    "second": "SECOND: thanks, and else?",
}
MODEL, CLAUDE, GEMINI = "gpt-5-mini", "claude-sonnet-4-5", "gemini-2.5-flash"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
LOST = "order 404 is lost at sea"
SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "units": {"type": "integer"}},
    "required": ["item", "units"],
    "additionalProperties": False,
}
TOOLS = {
    "lookup_stock": (
        "Units of an item in a warehouse.",
        {
            "type": "object",
            "properties": {"item": {"type": "string"}, "warehouse": {"type": "string"}},
            "required": ["item", "warehouse"],
        },
    ),
    "track_order": (
        "Where an order is.",
        {
            "type": "object",
            "properties": {"order_id": {"type": "integer"}, "verbose": {"type": "boolean"}},
            "required": ["order_id", "verbose"],
        },
    ),
}
CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "description": says, "parameters": schema}}
    for name, (says, schema) in TOOLS.items()
]
RESPONSES_TOOLS = [
    {"type": "function", "name": name, "description": says, "parameters": schema}
    for name, (says, schema) in TOOLS.items()
]
ANTHROPIC_TOOLS = [
    {"name": name, "description": says, "input_schema": schema} for name, (says, schema) in TOOLS.items()
]


def lookup_stock(item: str, warehouse: str) -> str:  # noqa: D103 - set below
    number = int(re.findall(r"\d+", item)[0])
    return json.dumps({"shelf": f"shelf {number}-{warehouse[:1]}", "units": number % 50})


def track_order(order_id: int, verbose: bool) -> str:  # noqa: D103, FBT001 - set below; a tool takes what the model writes
    if order_id == 404:
        raise LookupError(LOST)
    return f"order {order_id} is in Wörgl" + (" today" if not verbose else "")


# Frameworks send a function's docstring as the description of the tool.
lookup_stock.__doc__ = TOOLS["lookup_stock"][0]
track_order.__doc__ = TOOLS["track_order"][0]


def run_tool(name: str, arguments: dict[str, Any]) -> str:
    """Run a tool, with errors as text: for programs that call their tools themselves."""
    try:
        return track_order(**arguments) if name == "track_order" else lookup_stock(**arguments)
    except LookupError as error:
        return f"error: {error}"


def each(run: Callable[[str, str], object], *names: str) -> None:
    """Run the scenarios, each named on standard output; an exception goes to standard error and stops no other."""
    chosen = os.environ.get("SCENARIOS", "").split() or names
    with asyncio.Runner() as runner:
        for name in names:
            if name not in chosen:
                continue
            sys.stdout.write(f"scenario {name}\n")
            try:
                result = run(name, PROMPTS[name])
                if inspect.isawaitable(result):
                    runner.run(_finish(result))
            except Exception:  # noqa: BLE001 - a program may end a scenario with any error
                sys.stderr.write(f"scenario {name} raised\n{traceback.format_exc()}")


async def _finish(result: Any) -> object:
    return await result


def tracing() -> object:
    """Return a tracer provider that exports over OTLP, and flushes at the exit."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    return provider


def logging_too() -> object:
    """Return a logger provider that exports over OTLP."""
    from opentelemetry import _logs
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor

    provider = LoggerProvider()
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    _logs.set_logger_provider(provider)
    return provider


def around(name: str) -> object:
    """Return the span of the application around one scenario."""
    from opentelemetry import trace

    return trace.get_tracer("app").start_as_current_span(f"app {name}")
