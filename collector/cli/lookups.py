"""Records of the API, looked up by name or id."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from collector.cli.client import ServerClient
from collector.cli.responses import parse_response
from collector.escaping import one_line
from collector.path_names import path_segment

if TYPE_CHECKING:
    from collector.api.responses.judging import ActiveRuleDocument


class _Named(Protocol):
    id: str
    name: str


_Record = TypeVar("_Record", bound=_Named)


def one_named(records: Sequence[_Record], named: str, kinds: str, command: str) -> _Record:
    """Return the only record with this name or id.

    Raises:
        click.ClickException: no record, or more than one, has it.
    """
    matches = [each for each in records if named in {each.id, each.name}]
    if len(matches) == 1:
        return matches[0]
    problem = f"is the name of several {kinds}: use the id" if matches else f"is not a {kinds.removesuffix('s')}"
    raise click.ClickException(f"{one_line(named)} {problem}; `tracejury {command} list` shows them")


def rule_named(client: ServerClient, name: str, project: str | None = None) -> "ActiveRuleDocument":
    """Return the only rule with this id, or with this name in the project.

    Raises:
        click.ClickException: no rule, or more than one, has it.
    """
    from collector.api.responses.judging import RuleList

    rules = parse_response(RuleList, client.get("/api/v1/trace-eval-rules", size=1_000)).content
    matches = [
        rule
        for rule in rules
        if rule.id == name or (rule.name == name and (project is None or rule.project in {project, None}))
    ]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise click.ClickException(f"there is no rule {one_line(name)} here; `tracejury rules list` shows them")
    ids = ", ".join(f"{rule.id} ({one_line(rule.project or 'all projects')})" for rule in matches)
    raise click.ClickException(f"{len(matches)} rules are called {one_line(name)}; name one by its id: {ids}")


def rule_path(rule: "ActiveRuleDocument") -> str:
    """Return the path of a rule in the API."""
    return f"/api/v1/projects/{path_segment(rule.project or '*')}/trace-eval-rules/{path_segment(rule.id)}"
