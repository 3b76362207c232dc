"""`tracejury connections`: lists the connections to models that judge, and tests them."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from collector.api.responses.judging import ConnectionDocument, ConnectionTrialDocument
from collector.cli.client import ServerClient, open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import print_json, print_table
from collector.cli.responses import parse_response
from collector.cli.text import spending_text
from collector.cli.views import ColumnView, TableView
from collector.escaping import one_line
from collector.path_names import path_segment
from collector.units import duration_text, usd_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_PATH = "/api/v1/llm-connections"
_FAILED = 1
_COLUMNS = ("NAME", "MODEL", "BASE URL", "PROTOCOL", "KEY", "FROM", "CALLS TODAY", "FAILED", "TOKENS", "USD")


@click.group()
def connections() -> None:
    """See the connections to models that judge, and try them."""


@connections.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_connections(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """List connections with today's spending (UTC). Keys are not shown."""
    one_source(server, data)
    with open_source(server, data) as source:
        documents = source.whole(_PATH)
    if as_json:
        print_json(documents)
    elif documents:
        connections = parse_response(list[ConnectionDocument], documents)
        print_table(_table(connections))
        print_problems(connections)
    else:
        click.echo(
            "no connections here; POST /api/v1/llm-connections makes one, and so does the setting llm_connections"
        )


@connections.command("test")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="The answer as JSON.")
@source_options
@click.pass_context
def try_out(ctx: click.Context, /, *, name: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """Test a connection (name or id) with one small request to its model, which counts against its budgets.

    Exits with 1 if the call fails, or if the response is not in the format that judges need.
    """
    one_source(server, data)
    with open_source(server, data) as source:
        document = source.post(f"{_PATH}/{path_segment(_id_of(source, name))}/test")
    trial = parse_response(ConnectionTrialDocument, document)
    if as_json:
        print_json(document)
    else:
        click.echo(_trial_text(name, trial))
    ctx.exit(0 if trial.ok else _FAILED)


def _id_of(source: ServerClient, name: str) -> str:
    views = parse_response(list[ConnectionDocument], source.whole(_PATH))
    for view in sorted(views, key=lambda view: view.id != name):
        if name in {view.id, view.name}:
            return view.id
    known = ", ".join(one_line(view.name) for view in views) or "none"
    raise click.ClickException(f"no connection {one_line(name)} here; there are: {known}")


def _table(connections: "Sequence[ConnectionDocument]") -> TableView:
    columns = tuple(ColumnView(name=title, type="VARCHAR") for title in _COLUMNS)
    return TableView(columns=columns, rows=tuple(map(_row, connections)), truncated=False)


def print_problems(connections: "Iterable[ConnectionDocument]") -> None:
    """Print why connections give no verdicts."""
    for each in connections:
        if each.problem is not None:
            click.secho(one_line(f"{each.name} gives no verdicts: {each.problem}"), fg="red")


def _row(view: ConnectionDocument) -> tuple[object, ...]:
    key = view.credential_ref if view.credential == "credentialRef" else "encrypted" if view.credential else "none"
    spent = view.spent_today
    cost = "-" if view.price is None and not spent.calls else spending_text(spent)
    taken = (spent.calls, spent.failed_calls, spent.tokens, cost)
    return (view.name, view.model, view.base_url, view.protocol, key, view.origin.lower(), *taken)


def _trial_text(name: str, trial: ConnectionTrialDocument) -> str:
    took = ""
    usage = trial.usage
    if usage is not None:
        parts = [
            one_line(usage.model or "a model that does not say its name"),
            duration_text(usage.latency_ms),
            f"{_number(usage.input_tokens)} tokens in, {_number(usage.output_tokens)} out",
            "no price" if usage.cost_usd is None else usd_text(usage.cost_usd),
        ]
        took = ": " + ", ".join(parts)
    if trial.failure is None:
        return f"{one_line(name)} works{took}"
    return f"{one_line(name)} does not work: {trial.failure.kind}: {one_line(trial.failure.message)}{took}"


def _number(count: int | None) -> str:
    return "?" if count is None else str(count)
