# mypy: ignore-errors
"""LiteLLM's completions with its own callback for OpenTelemetry: the argument is the model."""

import json
import sys

import litellm
import shop

MODEL = sys.argv[1]
litellm.callbacks = ["otel"]


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    messages = [{"role": "system", "content": shop.SYSTEM}, {"role": "user", "content": prompt}]
    options = {"model": MODEL, "tools": shop.CHAT_TOOLS, "max_tokens": 4_000}
    while True:
        if name == "parallel-preamble":
            stream = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = list(litellm.completion(messages=messages, **stream, **options))
            message = litellm.stream_chunk_builder(chunks, messages=messages).choices[0].message
        else:
            message = litellm.completion(messages=messages, **options).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            says = shop.run_tool(call.function.name, json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": says})


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "refuse", "cut", "twice", "first")

import time  # noqa: E402 - callbacks run in threads of their own

time.sleep(3)
