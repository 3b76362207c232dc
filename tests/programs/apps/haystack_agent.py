# mypy: ignore-errors
"""Haystack's agent over OpenAI's chat completions: the argument is `own` for its own tracing, or an instrumentation."""

import sys

import shop

provider = shop.tracing()
if sys.argv[1] == "openinference":
    from openinference.instrumentation.haystack import HaystackInstrumentor

    HaystackInstrumentor().instrument(tracer_provider=provider)

from haystack import Pipeline  # noqa: E402 - after the instrumentation
from haystack.components.agents import Agent  # noqa: E402
from haystack.components.generators.chat import OpenAIChatGenerator  # noqa: E402
from haystack.dataclasses import ChatMessage  # noqa: E402
from haystack.tools import create_tool_from_function  # noqa: E402


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    stream = (lambda _: None) if name == "parallel-preamble" else None
    generator = OpenAIChatGenerator(model=shop.MODEL, streaming_callback=stream)
    tools = [create_tool_from_function(shop.lookup_stock), create_tool_from_function(shop.track_order)]
    agent = Agent(chat_generator=generator, tools=tools, system_prompt=shop.SYSTEM, max_agent_steps=5)
    pipeline = Pipeline()
    if sys.argv[1] == "own":
        from haystack_integrations.components.connectors.opentelemetry import OpenTelemetryConnector

        pipeline.add_component("tracer", OpenTelemetryConnector("shop"))
    pipeline.add_component("agent", agent)
    pipeline.run({"agent": {"messages": [ChatMessage.from_user(prompt)]}})


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "first")
