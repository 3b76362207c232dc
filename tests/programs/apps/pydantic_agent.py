# mypy: ignore-errors
"""Pydantic AI's agent: the argument is the protocol of the model."""

import os
import sys

import shop

provider = shop.tracing()

from pydantic import BaseModel  # noqa: E402
from pydantic_ai import Agent, BinaryContent  # noqa: E402

WIRE = sys.argv[1]
MODELS = {
    "chat": f"openai-chat:{shop.MODEL}",
    "responses": f"openai-responses:{shop.MODEL}",
    "anthropic": f"anthropic:{shop.CLAUDE}",
}


class Stock(BaseModel):
    """The stock of an article."""

    item: str
    units: int


def model() -> object:
    """Return the model of the protocol."""
    if WIRE == "bedrock":
        from pydantic_ai.models.bedrock import BedrockConverseModel
        from pydantic_ai.providers.bedrock import BedrockProvider

        provider = BedrockProvider(base_url=os.environ["MODEL_URL"], region_name="us-east-1")
        return BedrockConverseModel("anthropic.claude-sonnet-4-5-v1:0", provider=provider)
    if WIRE != "google":
        return MODELS[WIRE]
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleModel(shop.GEMINI, provider=GoogleProvider(api_key="none", base_url=os.environ["MODEL_URL"]))


Agent.instrument_all()
agent = Agent(model(), name="shop", system_prompt=shop.SYSTEM)
agent.tool_plain(shop.lookup_stock)
agent.tool_plain(shop.track_order)
structured = Agent(model(), name="shop", output_type=Stock)
history: list = []


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    global history  # noqa: PLW0603 - a conversation goes on
    if name == "picture":
        import base64

        picture = BinaryContent(data=base64.b64decode(shop.PIXEL), media_type="image/png")
        await agent.run([prompt, picture])
    elif name == "structured":
        await structured.run(prompt)
    elif name == "parallel-preamble":
        async with agent.run_stream(prompt) as result:
            async for _ in result.stream_text():
                pass
    else:
        try:
            result = await agent.run(prompt, message_history=history if name == "second" else None)
            history = result.all_messages()
        except LookupError:
            if name != "failtool":
                raise


names = ["plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "picture", "structured"]
shop.each(run, *names, "first", "second")
