"""The page about simulated users: its examples run as they stand, and it names what there is."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from collector.simulating.making import simulation_of
from collector.simulating.plan import SimulationPlan
from tests.source_tree import ROOT
from tracejury import personas
from tracejury.simulator import StopReason

PAGE = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    """Return the examples of one language."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def a_model(messages: list[Mapping[str, Any]]) -> str:
    """Build a model that plays every user."""
    return f"Hurry up! ({len(messages)})"


def test_the_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other in one program, with the claims that they make."""
    monkeypatch.delenv("TRACEJURY_URL", raising=False)
    names: dict[str, Any] = {"model": a_model, "folder": tmp_path}
    for block in blocks("python"):
        exec(compile(block, "docs/simulation.md", "exec"), names)  # noqa: S102 - which is what the page is tested by
    assert names["found"].pass_rate == 1.0


def test_the_file_is_a_simulation(tmp_path: Path) -> None:
    """The example of a file can be run as it stands."""
    plan = SimulationPlan.model_validate(yaml.safe_load(blocks("yaml")[0]))
    simulation = simulation_of(plan, tmp_path, {"MODEL_KEY": "k"}.get, tmp_path / "journal.jsonl")
    assert [each.key for each in simulation.scenarios] == ["refund", "late"]


def test_the_page_names_what_there_is() -> None:
    """Each reason to stop, each persona and each key of a file."""
    made = [name for name in dir(personas) if name.endswith(("_user", "_customer", "_expert"))]
    keys = [field.alias for shape in shapes(SimulationPlan) for field in shape.model_fields.values()]
    assert len(keys) > 40
    for name in (*get_args(StopReason), *made, *keys):
        assert re.search(rf"\b{name}\b", PAGE), name


def shapes(shape: Any) -> list[Any]:
    """Return a model, and the models of its fields."""
    inside = [part for field in shape.model_fields.values() for part in parts(field.annotation)]
    return [shape, *(each for part in inside for each in shapes(part))]


def parts(annotation: Any) -> list[Any]:
    """Return the models in an annotation."""
    if hasattr(annotation, "model_fields"):
        return [annotation]
    return [part for each in get_args(annotation) for part in parts(each)]
