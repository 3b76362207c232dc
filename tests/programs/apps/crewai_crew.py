# mypy: ignore-errors
"""CrewAI's crew of one agent: the argument is the instrumentation."""

import sys

import shop

provider = shop.tracing()
if sys.argv[1] == "openinference":
    from openinference.instrumentation.crewai import CrewAIInstrumentor
else:
    from opentelemetry.instrumentation.crewai import CrewAIInstrumentor
CrewAIInstrumentor().instrument(tracer_provider=provider)
from openinference.instrumentation.openai import OpenAIInstrumentor  # noqa: E402

OpenAIInstrumentor().instrument(tracer_provider=provider)

from crewai import LLM, Agent, Crew, Task  # noqa: E402 - after the instrumentation
from crewai.tools import tool  # noqa: E402


def run(name: str, prompt: str) -> None:  # noqa: ARG001 - all scenarios are alike
    """Run one scenario."""
    llm = LLM(model=f"openai/{shop.MODEL}")
    tools = [tool(shop.lookup_stock), tool(shop.track_order)]
    agent = Agent(role="clerk", goal="help", backstory=shop.SYSTEM, tools=tools, llm=llm)
    task = Task(description=prompt, expected_output="an answer", agent=agent)
    Crew(agents=[agent], tasks=[task]).kickoff()


shop.each(run, "plain", "seq-think", "parallel-preamble", "failtool", "first")
