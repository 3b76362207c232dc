# mypy: ignore-errors
"""DSPy's predictor and its agent, over LiteLLM's chat completions."""

import shop
from openinference.instrumentation.dspy import DSPyInstrumentor

DSPyInstrumentor().instrument(tracer_provider=shop.tracing())

import dspy  # noqa: E402 - after the instrumentation

dspy.configure(lm=dspy.LM(f"openai/{shop.MODEL}", cache=False, max_tokens=30_000, temperature=1.0))


def run(name: str, prompt: str) -> None:
    """Run one scenario."""
    if name == "plain":
        dspy.Predict("question -> answer")(question=prompt)
    else:
        dspy.ReAct("question -> answer", tools=[shop.lookup_stock, shop.track_order])(question=prompt)


shop.each(run, "plain", "first")
