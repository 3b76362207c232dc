# mypy: ignore-errors
"""OpenAI's agents: arguments are the instrumentation and the protocol of the model."""

import sys

import shop

INSTRUMENTATION, WIRE = sys.argv[1:3]

match INSTRUMENTATION:
    case "openinference":
        from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        OpenAIAgentsInstrumentor().instrument(tracer_provider=shop.tracing())
    case "contrib":
        from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        OpenAIAgentsInstrumentor().instrument(tracer_provider=shop.tracing())
    case "traceloop":
        from opentelemetry.instrumentation.openai_agents import OpenAIAgentsInstrumentor

        OpenAIAgentsInstrumentor().instrument(tracer_provider=shop.tracing())
    case "logfire":
        import logfire

        logfire.configure(send_to_logfire=False, console=False)
        logfire.instrument_openai_agents()

from agents import Agent, Runner, function_tool, set_default_openai_api  # noqa: E402 - after the instrumentation

set_default_openai_api("responses" if WIRE == "responses" else "chat_completions")
TOOLS = [function_tool(shop.lookup_stock), function_tool(shop.track_order)]
tracker = Agent(name="tracker", instructions=shop.SYSTEM, model=shop.MODEL, tools=TOOLS)
agent = Agent(name="shop", instructions=shop.SYSTEM, model=shop.MODEL, tools=TOOLS)
desk = Agent(name="desk", instructions=shop.SYSTEM, model=shop.MODEL, handoffs=[tracker])

history: list = []


async def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    global history  # noqa: PLW0603 - a conversation goes on
    messages = [*(history if name == "second" else []), {"role": "user", "content": prompt}]
    if name == "picture":
        picture = {"type": "input_image", "image_url": f"data:image/png;base64,{shop.PIXEL}", "detail": "auto"}
        messages = [{"role": "user", "content": [{"type": "input_text", "text": prompt}, picture]}]
    starts = desk if name == "handoff" else agent
    if name == "parallel-preamble":
        result = Runner.run_streamed(starts, messages)
        async for _ in result.stream_events():
            pass
    else:
        result = await Runner.run(starts, messages)
    history = result.to_input_list()


names = ["plain", "seq-think", "parallel-preamble", "failtool", "refuse", "twice", "picture", "handoff"]
if WIRE == "chat":  # over the responses an answer that was cut is an exception, and nothing is exported of it
    names.append("cut")
shop.each(run, *names, "first", "second")
