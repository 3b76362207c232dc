# mypy: ignore-errors
"""Semantic Kernel's agent over OpenAI's chat completions."""

import shop

shop.tracing()
shop.logging_too()

import logging  # noqa: E402

from opentelemetry._logs import get_logger_provider  # noqa: E402
from opentelemetry.sdk._logs import LoggingHandler  # noqa: E402
from semantic_kernel.agents import ChatCompletionAgent  # noqa: E402
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion  # noqa: E402
from semantic_kernel.functions import kernel_function  # noqa: E402

handler = LoggingHandler(logger_provider=get_logger_provider())
handler.addFilter(lambda record: record.name.startswith("semantic_kernel.utils.telemetry"))
logging.getLogger().addHandler(handler)
logging.getLogger().setLevel(logging.INFO)


class Shop:
    """The tools as a plugin."""

    lookup_stock = staticmethod(kernel_function(shop.lookup_stock))
    track_order = staticmethod(kernel_function(shop.track_order))


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    service = OpenAIChatCompletion(ai_model_id=shop.MODEL, api_key="none")
    agent = ChatCompletionAgent(service=service, name="shop", instructions=shop.SYSTEM, plugins=[Shop()])
    if name == "parallel-preamble":
        async for _ in agent.invoke_stream(prompt):
            pass
    else:
        await agent.get_response(prompt)


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "first")
