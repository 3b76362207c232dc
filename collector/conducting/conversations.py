"""Conversations with simulated users as a task: the cases are scenarios, and each trial is a conversation."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from collector.conducting.answers import ApplicationAnswer, NoTaskAnswer
from collector.conducting.cases import read_cases
from collector.conducting.tasks import ConversationPlace, Task
from collector.datasets.item import ItemText
from tracejury import results
from tracejury.dataset import Example
from tracejury.experiment import current_item
from tracejury.scenario import keyed
from tracejury.simulation import Simulation, simulated_task


def cases_of(simulation: Simulation) -> Sequence[ItemText]:
    """The scenarios of a simulation as the cases of an experiment."""
    examples = [each.example() for each in keyed(simulation.scenarios)]
    lines = [
        {
            "id": each.id,
            "inputs": each.inputs,
            "expectedOutputs": each.expected_outputs,
            "metadata": each.metadata,
        }
        for each in examples
    ]
    return read_cases(io.BytesIO("\n".join(map(json.dumps, lines)).encode()), "jsonl")


def conversing(simulation: Simulation) -> Task:
    """A task that has the conversation of a scenario, within the budget of the simulation.

    What broke off keeps its turns; its kind says whether the agent, the simulator or the budget ended it.
    """
    task = simulated_task(simulation)

    async def ask(told: Mapping[str, Any], _place: ConversationPlace) -> ApplicationAnswer:
        current_item.set((told["id"], told["trial"]))
        example = Example.model_validate({name: told[name] for name in ("id", "inputs", "metadata")})
        try:
            had = await task(example)
        except results.TaskFailed as failed:
            raise NoTaskAnswer(failed.kind, str(failed), failed.outputs) from None
        except ValueError as error:
            raise NoTaskAnswer("scenario", str(error)) from None
        return ApplicationAnswer(
            outputs=had.outputs, tokens_in=had.tokens_in, tokens_out=had.tokens_out, cost_usd=had.cost_usd
        )

    return ask
