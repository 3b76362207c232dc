"""The pages about evaluators: every example runs, and every evaluator and key is documented."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from evaluators.configuration import Configuration
from evaluators.outcome import Outcome
from evaluators.registry import KINDS
from tests.evaluating import evaluate
from tests.judging import judged as judge_by
from tests.source_tree import ROOT

PAGES = sorted((ROOT / "docs" / "evaluators").glob("*.md"))
BLOCK = re.compile(r"^```json (evaluate|judge|outcome)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def examples(*, judged: bool) -> Iterator[Any]:
    """Yield each evaluation of a page, with the answers of its judge, if any, and its result."""
    for page in PAGES:
        example: dict[str, Any] = {}
        for number, (kind, text) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            document = json.loads(text)
            if kind == "evaluate":
                example = {"evaluate": document, "judge": []}
            elif kind == "judge":
                example["judge"].append(document)
            elif bool(example["judge"]) is judged:
                name = f"{page.stem}-{number}-{example['evaluate']['evaluator']}"
                yield pytest.param(example | {"outcome": document}, id=name)


@pytest.mark.parametrize("example", list(examples(judged=False)))
def test_examples_come_out_as_they_are_printed(example: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """An evaluation on a page gives the printed result, from the root of the repository."""
    monkeypatch.chdir(ROOT)
    case = example["evaluate"]
    _compare(evaluate(case["evaluator"], case.get("config", {}), case["case"]), example["outcome"])


@pytest.mark.parametrize("example", list(examples(judged=True)))
def test_examples_of_judges_come_out_as_they_are_printed(example: Mapping[str, Any]) -> None:
    """An evaluation on a page gives the printed result, when a model answers as the page shows."""
    case, answers = example["evaluate"], example["judge"]
    script = answers if len(answers) > 1 else answers[0]
    outcome, _ = judge_by(case["evaluator"], case.get("config", {}), case["case"], script)
    _compare(outcome, example["outcome"])


@pytest.mark.parametrize("name", KINDS)
def test_every_evaluator_has_its_page(name: str) -> None:
    """A page has a section for the evaluator, an example of it, and names each key that is not every evaluator's."""
    (page,) = [text for text in map(_text, PAGES) if f"\n## {name}\n" in text]
    section = page.split(f"\n## {name}\n")[1].split("\n## ")[0]
    assert f'"evaluator": "{name}"' in section
    fields = KINDS[name].configuration.model_fields
    own = [field.alias for key, field in fields.items() if key not in Configuration.model_fields]
    assert [key for key in own if f"`{key}" not in page] == []


def test_the_index_names_every_evaluator() -> None:
    """The index links to all evaluators, and documents the keys common to all."""
    index = _text(ROOT / "docs" / "evaluators" / "index.md")
    assert [name for name in KINDS if f"`{name}`" not in index] == []
    assert [field.alias for field in Configuration.model_fields.values() if f"`{field.alias}`" not in index] == []


def _compare(outcome: Outcome, printed: Mapping[str, Any]) -> None:
    document = outcome.to_document()
    for key, value in printed.items():
        actual = document[key]
        if isinstance(value, dict) and isinstance(actual, dict):
            actual = {name: actual.get(name) for name in value}
        assert actual == value, f"{key}: {document[key]}"


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")
