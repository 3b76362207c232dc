# mypy: ignore-errors
"""AG2's agent with its own telemetry: the argument is the protocol of the model."""

import sys

import shop

provider = shop.tracing()

from ag2 import Agent  # noqa: E402
from ag2.config import OpenAIConfig, OpenAIResponsesConfig  # noqa: E402
from ag2.middleware.builtin.telemetry import TelemetryMiddleware  # noqa: E402

CONFIG = {"chat": OpenAIConfig, "responses": OpenAIResponsesConfig}[sys.argv[1]]


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    agent = Agent(
        "shop",
        shop.SYSTEM,
        config=CONFIG(model=shop.MODEL, streaming=name == "parallel-preamble"),
        tools=[shop.lookup_stock, shop.track_order],
        middleware=[TelemetryMiddleware(tracer_provider=provider, agent_name="shop", capture_content=True)],
    )
    await agent.ask(prompt)


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "first")
