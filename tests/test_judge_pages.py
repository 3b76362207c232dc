"""The pages about judges are true: each example is run, and gives what the page says."""

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any

import pytest

from evaluators.case import parse_case
from evaluators.evaluator import run
from evaluators.registry import KINDS, build
from tests.judging import judged
from tests.source_tree import ROOT

FOLDER = ROOT / "docs" / "evaluators"
PAGES = ("judges", "grounding", "agent-judges", "code-judges")
_BLOCK = re.compile(r"^```json (evaluate|judge|outcome)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """What a page shows: a question, what the judge answers, and what comes of it."""

    asked: dict[str, Any]
    answers: list[Any]
    outcome: dict[str, Any]


def examples(page: str) -> list[Example]:
    """The examples of a page, in order."""
    found: list[Example] = []
    asked: dict[str, Any] | None = None
    answers: list[Any] = []
    for kind, text in _BLOCK.findall((FOLDER / f"{page}.md").read_text(encoding="utf-8")):
        document = json.loads(text)
        match kind:
            case "evaluate":
                asked, answers = document, []
            case "judge":
                answers.append(document)
            case _:
                assert asked is not None
                found.append(Example(asked, answers, document))
    return found


EXAMPLES = [(page, example) for page in PAGES for example in examples(page)]


@pytest.mark.parametrize("page,example", EXAMPLES, ids=[f"{n}-{page}" for n, (page, _) in enumerate(EXAMPLES)])
def test_examples_give_what_the_page_says(page: str, example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """An example can be tried as it stands, from the root of the repository."""
    assert page in PAGES
    monkeypatch.chdir(ROOT)
    name, configuration, case = example.asked["evaluator"], example.asked.get("config", {}), example.asked["case"]
    if example.answers:
        script = example.answers if len(example.answers) > 1 else example.answers[0]
        outcome, _ = judged(name, configuration, case, script)
    else:
        outcome = asyncio.run(run(build(name, configuration), parse_case(case)))
    told = outcome.to_document()
    assert {key: _like(told[key], value) for key, value in example.outcome.items()} == example.outcome


def test_every_judge_has_its_page() -> None:
    """Each evaluator that may ask a judge, and the code judge, has a section, an example, and its keys on the page."""
    sections = {page: (FOLDER / f"{page}.md").read_text(encoding="utf-8") for page in PAGES}
    shown = {example.asked["evaluator"] for _, example in EXAMPLES}
    families = {kind.name: kind for kind in KINDS.values() if kind.check.__module__.startswith("evaluators.judges")}
    for name, kind in [*families.items(), ("code_judge", KINDS["code_judge"])]:
        page = next((text for text in sections.values() if f"\n## {name}\n" in text), "")
        assert page, name
        assert name in shown
        ours = set(kind.configuration.__annotations__) - {"evaluation_params"}
        keys = {kind.configuration.model_fields[field].alias for field in ours}
        assert {key for key in keys if key and f"`{key}" not in page and f'"{key}"' not in page} <= {"threshold"}


def _like(told: object, wanted: object) -> object:
    """What is told, as far as it is wanted."""
    if isinstance(told, dict) and isinstance(wanted, dict):
        return {key: _like(told.get(key), value) for key, value in wanted.items()}
    return told
