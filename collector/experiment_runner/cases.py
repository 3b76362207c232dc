"""The cases of an experiment: those of a file, and scenarios of simulated users, each trial a conversation."""

import io
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from collector.datasets.files import FORMS, Format, read_items
from collector.datasets.item import BadItem, ItemMaker
from collector.datasets.schema import ItemSchemas
from collector.experiment_runner.answers import ApplicationAnswer, NoTaskAnswer
from collector.experiment_runner.tasks import ConversationPlace, Task
from collector.plan_file import BadPlan
from tracejury import results
from tracejury.dataset import Example
from tracejury.dataset_text import BadFile, ItemText, places_text
from tracejury.experiment import current_item
from tracejury.file_ending import ending_of
from tracejury.scenario import keyed
from tracejury.simulation import Simulation, simulated_task

_log = logging.getLogger(__name__)


def read_cases(file: BinaryIO, form: Format) -> Sequence[ItemText]:
    """Read the cases of a file in their order; those without an id get one from their inputs, as in a dataset.

    Raises:
        BadPlan: something in it is wrong; the message says in which line or row.
    """
    maker, items, left_out = ItemMaker(schemas=ItemSchemas()), list[ItemText](), list[str]()
    try:
        for place, item in read_items(file, form, left_out=left_out.append):
            try:
                items.append(replace(item, item_id=maker.make(item).item_id))
            except BadItem as error:
                raise BadPlan(f"{place}: {error}") from None
    except BadFile as error:
        raise BadPlan(str(error)) from None
    if left_out:
        _log.warning("left out: %s", places_text(left_out, "rows without a value"))
    return items


def form_of(path: Path) -> Format:
    """Return the format of a file by its name.

    Raises:
        BadPlan: the name has no known ending.
    """
    form = next((each for each in FORMS if each == ending_of(path)), None)
    if form is None:
        raise BadPlan(f"dataset: {path.name} ends in none of {', '.join(f'.{each}' for each in FORMS)}")
    return form


def cases_of(simulation: Simulation) -> Sequence[ItemText]:
    """Return the scenarios of a simulation as the cases of an experiment."""
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
    """Return a task that runs the conversation of a scenario, within the budget of the simulation.

    A conversation that broke off keeps its turns; the kind of error says whether the agent, the simulator or the budget
    ended it.
    """
    task = simulated_task(simulation)

    async def ask(case: Mapping[str, Any], _place: ConversationPlace) -> ApplicationAnswer:
        current_item.set((case["id"], case["trial"]))
        example = Example.model_validate({name: case[name] for name in ("id", "inputs", "metadata")})
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
