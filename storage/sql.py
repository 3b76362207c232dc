"""Access to SQL files. Each has one statement, below a comment that describes the statement's result."""

import functools
import re
from graphlib import TopologicalSorter
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import duckdb


def dict_rows(cursor: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    """Fetch all rows of a cursor's last statement, each as a dict by column name."""
    names = [column[0] for column in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@functools.cache
def query(name: str) -> str:
    """Return the text of `queries/FOLDER/NAME.sql`; a name is unique across folders."""
    return _queries()[name].read_text(encoding="utf-8")


@functools.cache
def _queries() -> dict[str, Traversable]:
    rooms = [room for room in resources.files("storage").joinpath("queries").iterdir() if room.is_dir()]
    return {file.name.removesuffix(".sql"): file for room in rooms for file in room.iterdir()}


@functools.cache
def migrations() -> list[tuple[int, str, str]]:
    """Return the forward-only schema steps in order: number, name, text."""
    steps = []
    for file in resources.files("storage").joinpath("schema").iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            steps.append((int(number), name, file.read_text(encoding="utf-8")))
    return sorted(steps)


@functools.cache
def views() -> list[tuple[str, str]]:
    """Return the name and text of each view; a view comes after the views that it reads from."""
    folder = resources.files("storage").joinpath("views")
    texts = {
        file.name.removesuffix(".sql"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda each: each.name)
        if file.name.endswith(".sql")
    }
    read = {name: [each for each in _READ_FROM.findall(text) if each in texts] for name, text in texts.items()}
    return [(name, texts[name]) for name in TopologicalSorter(read).static_order()]


@functools.cache
def select_of(view: str) -> str:
    """Return the SELECT of a view, for statements that embed it and replace a table of it in `WITH`."""
    _, _, select = dict(views())[view].partition(" AS\n")
    return bare(select)


def bare(statement: str) -> str:
    """Return a statement without its final semicolon, for use inside another one."""
    return statement.rstrip().removesuffix(";")


_READ_FROM = re.compile(r"\b(?:FROM|JOIN) (\w+)")
_INTERNAL = frozenset(
    {
        "changed_part",
        "changed_trace",
        "counted_by_day",
        "counted_result",
        "decided",
        "evaluation_by_day",
        "outcome_of_run_item",
        "review_vote",
        "run_evaluation_state",
        "run_sums",
        "trace_roll_up",
        "trace_totals",
        "undecided",
    }
)
"""Views that only other views and statements of the server read; they are not documented."""


def documented_views() -> list[str]:
    """Return the names of the documented views, which clients may rely on."""
    return [name for name, _ in views() if name not in _INTERNAL]
