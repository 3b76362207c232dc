# mypy: ignore-errors
"""OpenAI's client, calling its tools itself: arguments are the instrumentation, and `no-root` for no span around it."""

import contextlib
import json
import sys

import shop

INSTRUMENTATION, *MORE = sys.argv[1:]


def instrument() -> object:
    """Set up one of the instrumentations."""
    match INSTRUMENTATION:
        case "openlit":
            import openlit

            return openlit.init()
        case "mlflow":
            import mlflow

            return mlflow.openai.autolog()
        case "logfire":
            import logfire

            logfire.configure(send_to_logfire=False, console=False)
            return logfire.instrument_openai()
        case "langfuse":  # its own client class is the instrumentation
            return None
        case "openinference":
            from openinference.instrumentation.openai import OpenAIInstrumentor
        case "traceloop":
            from opentelemetry.instrumentation.openai import OpenAIInstrumentor
        case "contrib":
            from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
    return OpenAIInstrumentor().instrument(tracer_provider=shop.tracing())


instrument()
if INSTRUMENTATION == "langfuse":
    from langfuse.openai import OpenAI
else:
    from openai import OpenAI

client = OpenAI()


def chat(messages: list, stream: bool = False, **more: object) -> object:  # noqa: FBT001, FBT002
    """Return one answer of the chat completions, streamed or not."""
    options = {"model": shop.MODEL, "messages": messages, "tools": shop.CHAT_TOOLS} | more
    if not stream:
        return client.chat.completions.create(**options).choices[0].message
    text, calls = "", {}
    for chunk in client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for call in choice.delta.tool_calls or []:
                one = calls.setdefault(call.index, {"id": "", "name": "", "arguments": ""})
                one["id"] += call.id or ""
                one["name"] += call.function.name or ""
                one["arguments"] += call.function.arguments or ""
    listed = [
        {"id": one["id"], "type": "function", "function": {"name": one["name"], "arguments": one["arguments"]}}
        for one in calls.values()
    ]
    return {"role": "assistant", "content": text or None} | ({"tool_calls": listed} if listed else {})


def chat_to_the_end(messages: list, stream: bool) -> list:  # noqa: FBT001
    """Answer tool calls until the model has no more."""
    while True:
        message = chat(messages, stream)
        message = message if isinstance(message, dict) else message.model_dump(exclude_none=True)
        messages.append(message)
        if not message.get("tool_calls"):
            return messages
        for call in message["tool_calls"]:
            result = shop.run_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def respond_to_the_end(prompt: str, stream: bool) -> None:  # noqa: FBT001
    """Do the same over the responses."""
    items = [{"role": "user", "content": prompt}]
    options = {"model": shop.MODEL, "tools": shop.RESPONSES_TOOLS, "instructions": shop.SYSTEM}
    while True:
        if stream:
            events = list(client.responses.create(input=items, stream=True, **options))
            response = events[-1].response
        else:
            response = client.responses.create(input=items, **options)
        items += [item.model_dump(exclude_none=True) for item in response.output]
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return
        for call in calls:
            result = shop.run_tool(call.name, json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": result})


history: list = []


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    global history  # noqa: PLW0603 - a conversation goes on
    with contextlib.nullcontext() if "no-root" in MORE else shop.around(name):
        messages = [{"role": "system", "content": shop.SYSTEM}, {"role": "user", "content": prompt}]
        match name:
            case "seq-think" | "refuse" | "twice":
                respond_to_the_end(prompt, stream=name == "twice")
            case "picture":
                url = {"url": f"data:image/png;base64,{shop.PIXEL}"}
                content = [{"type": "text", "text": prompt}, {"type": "image_url", "image_url": url}]
                chat([{"role": "user", "content": content}])
            case "structured":
                schema = {"name": "stock", "schema": shop.SCHEMA, "strict": True}
                chat(messages, response_format={"type": "json_schema", "json_schema": schema})
            case "first":
                history = chat_to_the_end(messages, stream=False)
            case "second":
                chat_to_the_end([*history, {"role": "user", "content": prompt}], stream=False)
            case _:
                chat_to_the_end(messages, stream=name == "parallel-preamble")


names = ["plain", "parallel-preamble", "failtool", "cut", "picture", "structured", "first", "second"]
if INSTRUMENTATION != "contrib":  # it does not know the responses
    names += ["seq-think", "refuse", "twice"]
shop.each(run, *names)
