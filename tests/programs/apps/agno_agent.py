# mypy: ignore-errors
"""Agno's agent: the argument is the protocol of the model."""

import base64
import sys

import shop
from openinference.instrumentation.agno import AgnoInstrumentor

AgnoInstrumentor().instrument(tracer_provider=shop.tracing())

from agno.agent import Agent  # noqa: E402 - after the instrumentation
from agno.media import Image  # noqa: E402
from agno.models.openai import OpenAIChat, OpenAIResponses  # noqa: E402

MODEL = {"chat": OpenAIChat, "responses": OpenAIResponses}[sys.argv[1]]


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    tools = [shop.lookup_stock, shop.track_order]
    agent = Agent(model=MODEL(id=shop.MODEL), tools=tools, instructions=shop.SYSTEM, telemetry=False)
    if name == "picture":
        agent.run(prompt, images=[Image(content=base64.b64decode(shop.PIXEL), format="png")])
    elif name == "parallel-preamble":
        list(agent.run(prompt, stream=True))
    else:
        agent.run(prompt)


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "picture", "first")
