# mypy: ignore-errors
"""LangChain's agent: arguments are the instrumentation and the protocol of the model."""

import os
import sys

import shop

INSTRUMENTATION, WIRE = sys.argv[1:3]

match INSTRUMENTATION:
    case "openinference":
        from openinference.instrumentation.langchain import LangChainInstrumentor

        LangChainInstrumentor().instrument(tracer_provider=shop.tracing())
    case "traceloop":
        from opentelemetry.instrumentation.langchain import LangchainInstrumentor

        LangchainInstrumentor().instrument(tracer_provider=shop.tracing())
    case "langfuse":
        from langfuse import get_client

        get_client()
    case "mlflow":
        import mlflow

        mlflow.langchain.autolog()

from langchain.agents import create_agent  # noqa: E402 - after the instrumentation
from langchain_core.tools import tool  # noqa: E402

TOOLS = [tool(shop.lookup_stock), tool(shop.track_order)]


def model(**more: object) -> object:
    """Return the chat model."""
    if WIRE == "anthropic":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model=shop.CLAUDE, max_tokens=4_000, **more)
    if WIRE == "bedrock":
        from langchain_aws import ChatBedrockConverse

        options = {"endpoint_url": os.environ["MODEL_URL"], "region_name": "us-east-1"}
        return ChatBedrockConverse(model="anthropic.claude-sonnet-4-5-v1:0", **options, **more)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(model=shop.MODEL, use_responses_api=WIRE == "responses", **more)


history: list = []


def config() -> dict:
    """Return the callbacks that an instrumentation wants."""
    if INSTRUMENTATION != "langfuse":
        return {}
    from langfuse.langchain import CallbackHandler

    return {"callbacks": [CallbackHandler()]}


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    global history  # noqa: PLW0603 - a conversation goes on
    if name == "picture":
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{shop.PIXEL}"}}
        if WIRE == "anthropic":
            source = {"type": "base64", "media_type": "image/png", "data": shop.PIXEL}
            picture = {"type": "image", "source": source}
        model().invoke([("user", [{"type": "text", "text": prompt}, picture])], config=config())
        return
    before = history if name == "second" else []
    agent = create_agent(model(streaming=name in ("parallel-preamble", "first")), TOOLS, system_prompt=shop.SYSTEM)
    messages = {"messages": [*before, {"role": "user", "content": prompt}]}
    try:
        history = agent.invoke(messages, config=config())["messages"]
    except LookupError:
        if name != "failtool":
            raise


shop.each(
    run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "picture", "first", "second"
)
