"""An agent with a tool, on the Agents SDK of OpenAI, run as an experiment.

The environment is that of `openai_client.py`. Needs openai-agents and tracejury-sdk[otel].
"""

import json
import sys

from agents import Agent, Runner, function_tool, set_tracing_disabled

import tracejury
from tracejury import Dataset, Example, Experiment, Measured

tracejury.init("capitals")
set_tracing_disabled(disabled=True)  # its own traces would go to OpenAI


@function_tool
def population(city: str) -> str:
    """How many people live in a city."""
    return f"{city}: 2,800,000"


agent = Agent(name="geographer", instructions="Answer with one word.", model="gpt-5-mini", tools=[population])


async def ask(example: Example) -> Measured:
    """Run the task: the agent calls the model, calls its tool if the model requests that, and calls the model again."""
    done = await Runner.run(agent, str(example.input))
    usage = done.context_wrapper.usage
    return Measured(done.final_output, tokens_in=usage.input_tokens, tokens_out=usage.output_tokens)


def exact(example: Example, outputs: dict[str, object]) -> bool:
    """Check that the answer is the expected one."""
    return outputs["output"] == example.expected_output


result = Experiment("agent", Dataset.load(*sys.argv[1:]), ask, [exact], project="capitals", parallelism=4).run()
print(json.dumps({"runId": result.run_id, "passRate": result.pass_rate, "lost": result.lost_items}))
