"""Items made from a recorded trace, a span of it, or a session. They are copies that outlive the original."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collector.datasets.item import BadItem
from evaluators.model import Case, text_of
from storage.offline.datasets import Item
from tracejury.dataset_text import MAX_ID_CHARACTERS, ItemText

_KEPT: Final = ("tools", "tasks", "constraints")  # keys of a case's metadata that items keep for evaluators


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A person's expected outputs. If None, `use_output` makes the recorded output the expected one."""

    expected: Mapping[str, Any] | None = None
    use_output: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotedTurn:
    """The input and output of one trace of a session."""

    prompt: str | None
    answered: str | None


def item_of_case(case: Case, item_id: str, source: Mapping[str, Any], correction: Correction) -> ItemText:
    """Make an item of a recorded case.

    Raises:
        BadItem: the case has no input.
    """
    document = json.loads(text_of(case))
    inputs = document.get("inputs") or {}
    if not inputs:
        raise BadItem("it has no input, and every item needs one")
    outputs = {"output": document["actualOutputs"]["output"]} if _has_output(document) else {}
    expected = correction.expected if correction.expected is not None else outputs if correction.use_output else {}
    metadata = document.get("metadata") or {}
    return ItemText(
        item_id=item_id,
        inputs=inputs,
        expected_outputs=expected,
        metadata={key: metadata[key] for key in _KEPT if key in metadata},
        source=source,
    )


def item_of_result(row: Mapping[str, Any], item_id: str, source: Mapping[str, Any], correction: Correction) -> ItemText:
    """Make a dataset item of an item of a run; a correction replaces the expected outputs.

    Raises:
        BadItem: the case has no input.
    """
    inputs, expected = json.loads(row["inputs"]), json.loads(row["expected_outputs"])
    if not inputs:
        raise BadItem("it has no input, and every item needs one")
    if correction.expected is not None:
        expected = correction.expected
    elif correction.use_output:
        expected = json.loads(row["actual_outputs"])
    metadata = json.loads(row["metadata"])
    return ItemText(item_id=item_id, inputs=inputs, expected_outputs=expected, metadata=metadata, source=source)


def case_of_session(turns: Sequence[PromotedTurn]) -> Case:
    """Make a case of a session's last turn with an input; its messages begin with those of earlier turns.

    Raises:
        BadItem: no turn has an input.
    """
    last = next((number for number in reversed(range(len(turns))) if turns[number].prompt), None)
    if last is None:
        raise BadItem("no trace of the session has an input")
    earlier = [
        {"role": role, "content": text}
        for turn in turns[:last]
        for role, text in (("user", turn.prompt), ("assistant", turn.answered))
        if text
    ]
    prompt = turns[last].prompt
    answered = turns[last].answered
    return Case(
        inputs={"input": prompt, "messages": [*earlier, {"role": "user", "content": prompt}]},
        actual_outputs={} if answered is None else {"output": answered},
    )


def corrected(stored: Item, correction: Correction) -> ItemText:
    """Return a stored item with a person's new expectation."""
    expected = correction.expected
    return ItemText(
        item_id=stored.item_id,
        inputs=json.loads(stored.inputs),
        expected_outputs=json.loads(stored.expected_outputs) if expected is None else expected,
        metadata=json.loads(stored.metadata),
        source=None if stored.source is None else json.loads(stored.source),
    )


def named_after(kind: str, *parts: str) -> str:
    """Return the id of an item made from a recorded source; the same source always gives the same id."""
    name = "-".join((kind, *parts))
    if len(name) <= MAX_ID_CHARACTERS and name.isprintable():
        return name
    return f"{kind}-{hashlib.sha256(name.encode()).hexdigest()[:32]}"


def _has_output(document: Mapping[str, Any]) -> bool:
    return (document.get("actualOutputs") or {}).get("output") is not None
