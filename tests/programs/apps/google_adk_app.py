# mypy: ignore-errors
"""Google's agent development kit over Gemini: the argument is `own` for its own spans, or an instrumentation."""

import os
import sys

os.environ |= {"GOOGLE_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": os.environ["MODEL_URL"]}

import shop

provider = shop.tracing()
if sys.argv[1] == "openinference":
    from openinference.instrumentation.google_adk import GoogleADKInstrumentor

    GoogleADKInstrumentor().instrument(tracer_provider=provider)

from google.adk.agents import Agent  # noqa: E402 - after the instrumentation
from google.adk.agents.run_config import RunConfig, StreamingMode  # noqa: E402
from google.adk.runners import InMemoryRunner  # noqa: E402
from google.genai import types  # noqa: E402


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    tools = [shop.lookup_stock, shop.track_order]
    agent = Agent(name="shop", model=shop.GEMINI, instruction=shop.SYSTEM, tools=tools)
    runner = InMemoryRunner(agent=agent, app_name="shop")
    session = await runner.session_service.create_session(app_name="shop", user_id="user-5")
    message = types.Content(role="user", parts=[types.Part(text=prompt)])
    mode = StreamingMode.SSE if name == "parallel-preamble" else StreamingMode.NONE
    config = RunConfig(streaming_mode=mode)
    async for _ in runner.run_async(user_id="user-5", session_id=session.id, new_message=message, run_config=config):
        pass


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "cut", "twice", "first")
