"""The page for users of the systems that came before: every name of ours on it is one of the program."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from importlib import import_module
from typing import Any, Final

import click
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter

import tracejury
from collector.api.serving.application import routes
from collector.cli.gate import UPDATE_VARIABLE
from collector.cli.main import main
from collector.experiment_runner.plan import Plan
from collector.mcp.server import BY_NAME
from collector.setting_groups import AlertEvent
from collector.settings import Settings
from collector.web.site import make_site
from evaluators.chat.settings import JudgeSettings
from evaluators.judges.conversation import READY_MADE
from evaluators.model import AgentTrace, Case, ToolDefinition
from evaluators.registry import KINDS
from tests.answers import the_document
from tests.source_tree import ROOT
from tracejury.client import KEY_VARIABLE, PATIENCE_VARIABLE, PROJECT_VARIABLE, URL_VARIABLE

PAGE: Final = (ROOT / "docs" / "from-dokimos.md").read_text(encoding="utf-8")
SPAN: Final = re.compile(r"`([^`]+)`")
MARKS: Final = ("`=`", "~ ", "not available")
METHOD: Final = re.compile(r"(?:GET|POST|PUT|PATCH|DELETE) /")
PYTHON: Final = re.compile(r"(\w[\w.]*)(?:\(([\w, ]+)\))?")
VARIABLES: Final = {f"TRACEJURY_{name.upper()}" for name in Settings.model_fields} | {
    UPDATE_VARIABLE,
    URL_VARIABLE,
    KEY_VARIABLE,
    PATIENCE_VARIABLE,
    PROJECT_VARIABLE,
}


@dataclass(frozen=True)
class Row:
    """A name of theirs, ours, and the difference; `kind` heads the column of ours."""

    theirs: str
    kind: str
    ours: str
    difference: str


def rows() -> Iterator[Row]:
    """Yield every row of every table of the page."""
    kind = ""
    for line in PAGE.splitlines():
        if not line.startswith("|"):
            kind = ""
            continue
        theirs, ours, difference = (cell.strip() for cell in line.strip("|").split("|"))
        if not kind:
            kind = ours
        elif ours.strip("-") or difference.strip("-"):
            yield Row(theirs, kind, ours, difference)


ROWS: Final = list(rows())


def words(schema: Any) -> Iterator[str]:
    """Yield the names and fixed values in a JSON schema."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {})
        fixed = [*schema.get("enum", ()), schema.get("const")]
        yield from (each for each in fixed if isinstance(each, str))
        if "in" in schema:
            yield schema["name"]
        for each in schema.values():
            yield from words(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from words(each)


def words_of(*models: Any) -> set[str]:
    """Return the same of models."""
    return {word for model in models for word in words(TypeAdapter(model).json_schema(by_alias=True))}


@cache
def keys() -> set[str]:
    """List the keys of evaluator configurations and cases."""
    read = {part for kind in KINDS.values() for each in kind.reads for part in each.split(".")}
    names = words_of(*(kind.configuration for kind in KINDS.values()), JudgeSettings, AgentTrace, Case, ToolDefinition)
    return read | names | set(READY_MADE) | {"judge"}


@cache
def fields_of_api() -> set[str]:
    """Return fields, parameters and values of the API, of files of experiments and of settings."""
    arguments = [tool.arguments for tool in BY_NAME.values()]
    return set(words(the_document())) | words_of(Plan, AlertEvent, *arguments) | set(Settings.model_fields)


@cache
def requests() -> set[str]:
    """Return every route of the API and of the pages, with placeholders."""
    made = [*routes(), *make_site().routes]
    api_routes = [route for route in made if isinstance(route, APIRoute)]
    return {f"{method} {place(route.path)}" for route in api_routes for method in route.methods or ()}


def place(path: str) -> str:
    """Return a path with its parameters replaced by a placeholder."""
    return re.sub(r"\{[^}]+\}", "{}", path)


def is_command(text: str) -> bool:
    """Return whether the text is a command of the program with valid options."""
    command: click.Command = main
    for part in text.split()[1:]:
        if part.startswith("--"):
            options = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
            if part not in options:
                return False
        elif isinstance(command, click.Group) and part in command.commands:
            command = command.commands[part]
        else:
            return False
    return True


def is_python(text: str) -> bool:
    """Return whether a name is importable from the package and takes these parameters in this order."""
    match = PYTHON.fullmatch(text)
    if match is None:
        return False
    name, parameters = match.groups()
    first, *others = name.split(".")
    try:
        value: Any = getattr(tracejury, first, None) or import_module(f"tracejury.{first}")
    except ImportError:
        return False
    for each in others:
        declared = {field.name for field in fields(value)} if is_dataclass(value) else set()
        if isinstance(value, type) and issubclass(value, BaseModel):
            declared |= set(value.model_fields)
        if not hasattr(value, each) and each not in declared:
            return False
        value = getattr(value, each, None)
    if parameters is None:
        return True
    listed = [each.strip() for each in parameters.split(",")]
    return listed == [each for each in inspect.signature(value).parameters if each in listed]


def is_named(text: str) -> bool:
    """Return whether a name looks like one of ours."""
    if text.startswith("tracejury "):
        return is_command(text)
    if text.startswith("TRACEJURY_"):
        return text in VARIABLES
    if METHOD.match(text):
        return place(text) in requests()
    if text.startswith("/"):
        return f"GET {place(text)}" in requests()
    return text in KINDS or text in BY_NAME or text in keys() | fields_of_api() or is_python(text)


OF_A_KIND: Final = {
    "evaluator": KINDS.__contains__,
    "key": lambda text: text in keys(),
    "Python": is_python,
    "request": lambda text: place(text) in requests(),
    "variable": VARIABLES.__contains__,
    "tool": BY_NAME.__contains__,
    "here": is_named,
}


def test_every_name_of_ours_is_there() -> None:
    """In its column it is of the kind that heads the column."""
    named = [(row, name) for row in ROWS for name in SPAN.findall(row.ours)]
    assert [f"{row.theirs}: {name}" for row, name in named if not OF_A_KIND[row.kind](name)] == []


def test_every_row_says_what_differs() -> None:
    """Every row says same, a difference, or why there is no counterpart; a row without our name is not the same."""
    assert [row.theirs for row in ROWS if not row.difference.startswith(MARKS)] == []
    assert [row.theirs for row in ROWS if row.difference.startswith("`=`") and not row.ours] == []
    assert [row.theirs for row in ROWS if row.difference.startswith("not available") and row.ours] == []


def test_commands_requests_and_variables_beside_the_tables_are_there() -> None:
    """The names in remarks and in the text, recognized by their form, all exist."""
    named = {name for row in ROWS for name in SPAN.findall(row.difference)}
    named |= set(SPAN.findall(re.sub(r"^\|.*$", "", PAGE, flags=re.MULTILINE)))
    ours = {name for name in named if name.startswith(("tracejury ", "TRACEJURY_")) or METHOD.match(name)}
    assert {name for name in ours if not is_named(name)} == set()


def test_every_evaluator_is_named() -> None:
    """Beside a name of theirs, or as one that has none."""
    assert set(KINDS) - set(SPAN.findall(PAGE)) == set()
