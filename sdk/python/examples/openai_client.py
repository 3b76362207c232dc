"""A plain program on the client of OpenAI, run as an experiment.

OPENAI_BASE_URL and OPENAI_API_KEY name the model's server, and TRACEJURY_URL the server that the run is reported to.
The arguments name the dataset. Needs openai and tracejury-sdk[otel].
"""

import json
import sys

from openai import OpenAI

import tracejury
from tracejury import Dataset, Example, Experiment, Measured

tracejury.init("capitals")
client = OpenAI()


def ask(example: Example) -> Measured:
    """Run the task: ask the model one question."""
    messages = [{"role": "user", "content": str(example.input)}]
    reply = client.chat.completions.create(model="gpt-5-mini", messages=messages)
    usage = reply.usage
    return Measured(reply.choices[0].message.content, tokens_in=usage.prompt_tokens, tokens_out=usage.completion_tokens)


def exact(example: Example, outputs: dict[str, object]) -> bool:
    """Check that the answer is the expected one."""
    return outputs["output"] == example.expected_output


result = Experiment("openai", Dataset.load(*sys.argv[1:]), ask, [exact], project="capitals", parallelism=4).run()
print(json.dumps({"runId": result.run_id, "passRate": result.pass_rate, "lost": result.lost_items}))
