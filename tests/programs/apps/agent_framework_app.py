# mypy: ignore-errors
"""Microsoft's agent framework: the argument is the protocol of the model."""

import sys

import shop

shop.tracing()
shop.logging_too()

from agent_framework import tool  # noqa: E402
from agent_framework.observability import enable_instrumentation  # noqa: E402
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient  # noqa: E402

enable_instrumentation(enable_sensitive_data=True)
CLIENT = {"chat": OpenAIChatCompletionClient, "responses": OpenAIChatClient}[sys.argv[1]]
TOOLS = [tool(shop.lookup_stock), tool(shop.track_order)]


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    agent = CLIENT(model=shop.MODEL).as_agent(name="shop", instructions=shop.SYSTEM, tools=TOOLS)
    if name == "parallel-preamble":
        async for _ in agent.run(prompt, stream=True):
            pass
    else:
        await agent.run(prompt)


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "first")
