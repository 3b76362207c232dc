"""The settings reference: made of the model, and committed for readers of the repository."""

import re
from pathlib import Path

import pytest
import yaml

from collector.settings import Settings
from collector.settings_loading import load_settings
from tests.settings_reference import example, table

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / "deploy" / "config.example.yaml"
_TABLE = re.compile(r"^\| YAML key \|.*?(?=\n\n)", re.MULTILINE | re.DOTALL)


def test_the_page_of_the_settings_is_that_of_the_model(request: pytest.FixtureRequest) -> None:
    """Keys, flags, variables, defaults, bounds and meanings are those of the code."""
    page = PAGE.read_text(encoding="utf-8")
    made = _TABLE.sub(lambda _: table(), page)
    if request.config.getoption("--update-golden"):
        PAGE.write_text(made, encoding="utf-8")
        page = made
    assert page == made, "docs/configuration.md is not what the model says: run pytest with --update-golden"


def test_the_example_of_a_configuration_is_that_of_the_model(request: pytest.FixtureRequest) -> None:
    """It holds each setting with its default, so that loading it changes nothing."""
    if request.config.getoption("--update-golden"):
        EXAMPLE.write_text(example(), encoding="utf-8")
    assert EXAMPLE.read_text(encoding="utf-8") == example(), "run pytest with --update-golden"
    assert load_settings(EXAMPLE, flags={}, environ={}) == Settings()


@pytest.mark.parametrize("name", [name for name, field in Settings.model_fields.items() if field.examples])
def test_what_is_given_as_an_example_is_taken(name: str) -> None:
    """Each example of a setting is YAML that the setting accepts, and says something else than its default."""
    for text in Settings.model_fields[name].examples or ():
        loaded = load_settings(None, flags={name: yaml.safe_load(text)}, environ={})
        assert getattr(loaded, name) != getattr(Settings(), name)
