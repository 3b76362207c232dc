# mypy: ignore-errors
"""Bedrock's converse of boto3: arguments are the instrumentation, and `stream` for its converse_stream."""

import json
import os
import sys

import shop

provider = shop.tracing()
shop.logging_too()
match sys.argv[1]:
    case "traceloop":
        from opentelemetry.instrumentation.bedrock import BedrockInstrumentor

        BedrockInstrumentor().instrument(tracer_provider=provider)
    case "openinference":
        from openinference.instrumentation.bedrock import BedrockInstrumentor

        BedrockInstrumentor().instrument(tracer_provider=provider)
    case "botocore":
        from opentelemetry.instrumentation.botocore import BotocoreInstrumentor

        BotocoreInstrumentor().instrument(tracer_provider=provider)

import boto3  # noqa: E402 - after the instrumentation

client = boto3.client("bedrock-runtime", endpoint_url=os.environ["MODEL_URL"], region_name="us-east-1")
TOOLS = [
    {"toolSpec": {"name": name, "description": says, "inputSchema": {"json": schema}}}
    for name, (says, schema) in shop.TOOLS.items()
]


def ask(messages: list) -> dict:
    """Return the message of one answer, streamed or not."""
    options = {"modelId": "anthropic.claude-sonnet-4-5-v1:0", "system": [{"text": shop.SYSTEM}]}
    options |= {"messages": messages, "toolConfig": {"tools": TOOLS}}
    if "stream" not in sys.argv:
        return client.converse(**options)["output"]["message"]
    blocks: dict[int, dict] = {}
    for event in client.converse_stream(**options)["stream"]:
        if start := event.get("contentBlockStart"):
            blocks[start["contentBlockIndex"]] = {"toolUse": start["start"]["toolUse"] | {"input": ""}}
        if part := event.get("contentBlockDelta"):
            delta = part["delta"]
            if "toolUse" in delta:
                blocks[part["contentBlockIndex"]]["toolUse"]["input"] += delta["toolUse"]["input"]
            elif "text" in delta:
                blocks.setdefault(part["contentBlockIndex"], {"text": ""})["text"] += delta["text"]
            else:  # a thought, with its signature at the end
                empty = {"reasoningContent": {"reasoningText": {"text": "", "signature": ""}}}
                thought = blocks.setdefault(part["contentBlockIndex"], empty)["reasoningContent"]["reasoningText"]
                for key, piece in delta["reasoningContent"].items():
                    thought[key] += piece
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    return {"role": "assistant", "content": list(blocks.values())}


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    messages = [{"role": "user", "content": [{"text": prompt}]}]
    with shop.around(name):
        while True:
            messages.append(ask(messages))
            calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
            if not calls:
                return
            results = [
                {"toolUseId": call["toolUseId"], "content": [{"text": shop.run_tool(call["name"], call["input"])}]}
                for call in calls
            ]
            messages.append({"role": "user", "content": [{"toolResult": result} for result in results]})


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "cut", "twice", "first")
