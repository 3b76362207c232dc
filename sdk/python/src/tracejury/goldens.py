"""Goldens: conversations as items of a dataset, written so that equal conversations give equal bytes."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tracejury.conversation import ConversationTrajectory
from tracejury.dataset import Example
from tracejury.plain import plain
from tracejury.scenario import Scenario


def golden_examples(conversations: Iterable[tuple[Scenario, ConversationTrajectory]]) -> list[Example]:
    """Return an item for each conversation, in their order.

    The input is the transcript. For a scripted user, the last answer is the expected output if the scenario has no
    other; answers to a user played by a model are not expected outputs.

    """
    return [_golden(number, *each) for number, each in enumerate(conversations, start=1)]


def _golden(number: int, scenario: Scenario, trajectory: ConversationTrajectory) -> Example:
    last = trajectory.last_assistant_message
    expected = dict(scenario.expected_outputs)
    if scenario.is_scripted and last is not None:
        expected.setdefault("output", last.content)
    details: dict[str, Any] = {"scenario": scenario.scenario, "turnCount": trajectory.turn_count}
    if scenario.expected_outcome:
        details["expectedOutcome"] = scenario.expected_outcome
    return Example(
        id=f"golden-{number}",
        inputs={"input": trajectory.to_text(), "messages": [each.document() for each in trajectory.messages]},
        expected_outputs=expected,
        metadata={**scenario.metadata, **details},
    )


def write_goldens(path: str | Path, goldens: Sequence[Example]) -> None:
    """Write items into a file of JSONL, which `tracejury datasets import` and `Dataset.load` read.

    No timestamps or random ids are added: equal conversations give equal bytes.
    """
    lines = []
    for each in goldens:
        document = {
            "id": each.id,
            "inputs": each.inputs,
            "expectedOutputs": each.expected_outputs,
            "metadata": each.metadata,
        }
        lines.append(json.dumps(plain(document), ensure_ascii=False, allow_nan=False, sort_keys=True))
    file = Path(path)
    part = file.with_name(f"{file.name}.part")
    part.write_bytes("".join(f"{line}\n" for line in lines).encode())
    part.replace(file)
