# mypy: ignore-errors
"""Bedrock's converse of boto3: the argument is the instrumentation."""

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


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    messages = [{"role": "user", "content": [{"text": prompt}]}]
    with shop.around(name):
        while True:
            answer = client.converse(
                modelId="anthropic.claude-sonnet-4-5-v1:0",
                messages=messages,
                system=[{"text": shop.SYSTEM}],
                toolConfig={"tools": TOOLS},
            )
            messages.append(answer["output"]["message"])
            calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
            if not calls:
                return
            results = [
                {"toolUseId": call["toolUseId"], "content": [{"text": shop.run_tool(call["name"], call["input"])}]}
                for call in calls
            ]
            messages.append({"role": "user", "content": [{"toolResult": result} for result in results]})


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "cut", "twice", "first")
