# mypy: ignore-errors
"""Anthropic's client, calling its tools itself: the argument is the instrumentation."""

import sys

import shop

match sys.argv[1]:
    case "openlit":
        import openlit

        openlit.init()
    case "openinference":
        from openinference.instrumentation.anthropic import AnthropicInstrumentor

        AnthropicInstrumentor().instrument(tracer_provider=shop.tracing())
    case "traceloop":
        from opentelemetry.instrumentation.anthropic import AnthropicInstrumentor

        AnthropicInstrumentor().instrument(tracer_provider=shop.tracing())
    case "mlflow":
        import mlflow

        mlflow.anthropic.autolog()
    case "logfire":
        import logfire

        logfire.configure(send_to_logfire=False, console=False)
        logfire.instrument_anthropic()

from anthropic import Anthropic

client = Anthropic()
OPTIONS = {"model": shop.CLAUDE, "max_tokens": 4_000, "system": shop.SYSTEM, "tools": shop.ANTHROPIC_TOOLS}


def ask(messages: list, how: str) -> object:
    """Return one answer: whole, out of the raw stream, or out of the helper for streams."""
    if how == "raw-stream":
        list(client.messages.create(messages=messages, stream=True, **OPTIONS))
        return None
    if how == "stream":
        with client.messages.stream(messages=messages, **OPTIONS) as stream:
            for _ in stream:
                pass
            return stream.get_final_message()
    return client.messages.create(messages=messages, **OPTIONS)


def to_the_end(messages: list, how: str) -> list:
    """Answer tool calls until the model has no more."""
    while True:
        message = ask(messages, how)
        if message is None:
            return messages
        messages.append(
            {"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in message.content]}
        )
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return messages
        results = []
        for call in calls:
            says = shop.run_tool(call.name, call.input)
            failed = {"is_error": True} if says.startswith("error") else {}
            results.append({"type": "tool_result", "tool_use_id": call.id, "content": says} | failed)
        messages.append({"role": "user", "content": results})


history: list = []


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    global history  # noqa: PLW0603 - a conversation goes on
    how = {"plain": "raw-stream", "parallel-preamble": "stream", "twice": "stream"}.get(name, "whole")
    messages = [{"role": "user", "content": prompt}]
    with shop.around(name):
        if name == "picture":
            source = {"type": "base64", "media_type": "image/png", "data": shop.PIXEL}
            content = [{"type": "text", "text": prompt}, {"type": "image", "source": source}]
            to_the_end([{"role": "user", "content": content}], how)
        elif name == "second":
            to_the_end([*history, *messages], how)
        else:
            history = to_the_end(messages, how)


shop.each(
    run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "picture", "first", "second"
)
