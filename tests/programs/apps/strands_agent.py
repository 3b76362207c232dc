# mypy: ignore-errors
"""Strands' agent: arguments are the service of the model, and `stream` for streams of Bedrock."""

import os
import sys

import shop

shop.tracing()

from strands import Agent, tool  # noqa: E402

SERVICE = sys.argv[1]


def model() -> object:
    """Return the model of the service."""
    if SERVICE == "anthropic":
        from strands.models.anthropic import AnthropicModel

        return AnthropicModel(model_id=shop.CLAUDE, max_tokens=4_000)
    if SERVICE == "bedrock":
        from strands.models import BedrockModel

        options = {"endpoint_url": os.environ["MODEL_URL"], "region_name": "us-east-1"}
        return BedrockModel(model_id="anthropic.claude-sonnet-4-5-v1:0", streaming="stream" in sys.argv, **options)
    from strands.models.openai import OpenAIModel

    return OpenAIModel(model_id=shop.MODEL)


history: list = []


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    global history  # noqa: PLW0603 - a conversation goes on
    tools = [tool(shop.lookup_stock), tool(shop.track_order)]
    before = history if name == "second" else []
    agent = Agent(model=model(), tools=tools, system_prompt=shop.SYSTEM, callback_handler=None, messages=list(before))
    agent(prompt)
    history = agent.messages


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "first", "second")
