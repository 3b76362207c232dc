"""`tracejury saved-views`: named settings of the list of traces, shared with others."""

from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl

import click
from msgspec import to_builtins

from collector.api.responses.saved_views import SavedViewDocument
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.lookups import one_named
from collector.cli.options import one_source, source_options
from collector.cli.render import print_json, print_table
from collector.cli.responses import parse_response
from collector.cli.views import ColumnView, TableView
from collector.escaping import one_line

_PATH: Final = "/api/v1/saved-views"
_COLUMNS: Final = ("name", "shows", "link", "by")


@click.group("saved-views")
def saved_views() -> None:
    """Name lists of traces, so that others open them by a link."""


@saved_views.command("list")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_saved_views(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """List saved views by name, with their filters."""
    one_source(server, data)
    with open_source(server, data) as client:
        documents = client.whole(_PATH)
    if as_json:
        print_json(documents)
        return
    views = parse_response(list[SavedViewDocument], documents)
    if not views:
        click.echo("there are no saved views")
        return
    rows = [
        (
            each.name,
            ", ".join(f"{name} {value}" for name, value in parse_qsl(each.query)) or "all traces",
            each.path,
            each.created_by,
        )
        for each in views
    ]
    columns = tuple(ColumnView(name=name, type="VARCHAR") for name in _COLUMNS)
    print_table(TableView(columns=columns, rows=tuple(rows), truncated=False))


@saved_views.command()
@click.argument("view")
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def show(*, view: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show a saved view by name or id: its link, and its query."""
    one_source(server, data)
    with open_source(server, data) as client:
        saved = _find(client, view)
        link = client.link(saved.path)
    if as_json:
        print_json(to_builtins(saved))
        return
    click.echo(one_line(saved.name))
    click.echo(f"  {'link':<10} {one_line(link)}")
    click.echo(f"  {'id':<10} {one_line(saved.id)}")
    if saved.tenant:
        click.echo(f"  {'tenant':<10} {one_line(saved.tenant)}")
    click.echo(f"  {'changed':<10} {one_line(saved.updated_at)}")
    for name, value in parse_qsl(saved.query):
        click.echo(f"  {one_line(name):<10} {one_line(value)}")


@saved_views.command()
@click.argument("name")
@click.argument("query", default="")
@click.option("--replace", is_flag=True, help="Replace the view of that name, if it exists.")
@source_options
def save(*, name: str, query: str, replace: bool, server: str | None, data: Path | None) -> None:
    """Save a list of traces as a view.

    QUERY is the URL of the list or the part after its ?; without it, the view shows all traces.
    """
    one_source(server, data)
    body = {"name": name, "query": query.rpartition("?")[2]}
    with open_server(server, data) as client:
        same_name = [view for view in _all(client) if view.name == name] if replace else []
        if len(same_name) > 1:
            raise click.ClickException(f"{one_line(name)} is the name of several saved views: delete one by its id")
        answer = client.put(f"{_PATH}/{same_name[0].id}", body) if same_name else client.post(_PATH, body)
        made = parse_response(SavedViewDocument, answer)
        click.echo(f"{one_line(made.name)}: {one_line(client.link(made.path))}")


@saved_views.command()
@click.argument("view")
@source_options
def delete(*, view: str, server: str | None, data: Path | None) -> None:
    """Delete a saved view (name or id). Links to it stop working."""
    one_source(server, data)
    with open_server(server, data) as client:
        saved = _find(client, view)
        client.delete(f"{_PATH}/{saved.id}")
    click.echo(f"{one_line(saved.name)} is deleted")


def _all(client: ServerClient) -> list[SavedViewDocument]:
    return parse_response(list[SavedViewDocument], client.whole(_PATH))


def _find(client: ServerClient, named: str) -> SavedViewDocument:
    return one_named(_all(client), named, "saved views", "saved-views")
