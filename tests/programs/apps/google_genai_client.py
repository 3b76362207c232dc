# mypy: ignore-errors
"""Google's GenAI client, which calls tools by itself: the argument is the instrumentation."""

import os
import sys

import shop

if sys.argv[1] != "logfire":
    provider = shop.tracing()
    shop.logging_too()
match sys.argv[1]:
    case "openinference":
        from openinference.instrumentation.google_genai import GoogleGenAIInstrumentor

        GoogleGenAIInstrumentor().instrument(tracer_provider=provider)
    case "contrib":
        from opentelemetry.instrumentation.google_genai import GoogleGenAiSdkInstrumentor

        GoogleGenAiSdkInstrumentor().instrument(tracer_provider=provider)
    case "traceloop":
        from opentelemetry.instrumentation.google_generativeai import GoogleGenerativeAiInstrumentor

        GoogleGenerativeAiInstrumentor().instrument(tracer_provider=provider)
    case "logfire":
        import logfire

        logfire.configure(send_to_logfire=False, console=False)
        logfire.instrument_google_genai()

from google import genai
from google.genai import types

client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=os.environ["MODEL_URL"]))


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    config = types.GenerateContentConfig(system_instruction=shop.SYSTEM, tools=[shop.lookup_stock, shop.track_order])
    with shop.around(name):
        if name == "plain":
            list(client.models.generate_content_stream(model=shop.GEMINI, contents=prompt, config=config))
        else:
            client.models.generate_content(model=shop.GEMINI, contents=prompt, config=config)


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "cut", "twice", "first")
