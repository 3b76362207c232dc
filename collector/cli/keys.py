"""`tracejury keys`: API keys and their roles."""

import datetime as dt
from pathlib import Path

import click

from collector.cli.client import open_server, open_source
from collector.cli.options import one_source, server_option, source_options
from collector.cli.render import print_json, print_table
from collector.cli.responses import parse_response
from collector.cli.times import COMING
from collector.cli.views import ColumnView, KeyView, TableView
from collector.escaping import one_line

_PATH = "/api/v1/api-keys"
_COLUMNS = ("id", "name", "role", "tenant", "state", "begins", "last used (UTC)")

json_option = click.option("--json", "as_json", is_flag=True, help="The response of the server, as JSON.")


@click.group()
def keys() -> None:
    """Create, list, disable and delete API keys. TRACEJURY_API_KEY must hold an ADMIN key, which commands send."""


@keys.command()
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(["VIEWER", "EDITOR", "ADMIN", "INGEST", "REVIEWER"], case_sensitive=False),
    required=True,
    help="VIEWER reads, EDITOR also writes, ADMIN may do all, INGEST sends spans and scores, REVIEWER only reviews.",
)
@click.option(
    "--tenant", metavar="ID", help="Tenant of the key: it writes data of this tenant, and reads that and shared data."
)
@click.option(
    "--expires",
    type=COMING,
    metavar="TIME",
    help="Expiry of the key, such as 2026-11-21, 2026-11-21T10:00:00Z or 90d from now.",
)
@click.option(
    "--keep-ingest-open",
    "open_until",
    type=COMING,
    metavar="TIME",
    help=("Accept spans without a key until then, such as 2d from now, while exporters are given keys."),
)
@json_option
@server_option
def create(
    *, name: str, role: str, tenant: str | None, as_json: bool, server: str, **times: dt.datetime | None
) -> None:
    """Create a key. It is printed only once; the server stores only a digest."""
    body: dict[str, object] = {"name": name, "role": role.upper(), "tenantId": tenant}
    for key, time in (("expiresAt", times["expires"]), ("ingestOpenUntil", times["open_until"])):
        if time is not None:
            body[key] = time.isoformat()
    with open_server(server, None) as client:
        answer = client.post(_PATH, body)
    if as_json:
        print_json(answer)
        return
    made = parse_response(KeyView, answer)
    click.echo(made.key)
    click.echo(f"key {made.id} ({one_line(made.name)}, {made.role}); this is the only time that it is shown", err=True)
    for warning in made.warnings:
        click.echo(f"note: {one_line(warning)}", err=True)


@keys.command("list")
@json_option
@source_options
def list_keys(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """List keys."""
    one_source(server, data)
    with open_source(server, data) as client:
        answer = client.whole(_PATH)
    if as_json:
        print_json(answer)
        return
    views = parse_response(list[KeyView], answer)
    rows = [(key.id, key.name, key.role, key.tenant_id, key.state, key.hint, key.last_used_at) for key in views]
    columns = tuple(ColumnView(name=name, type="VARCHAR") for name in _COLUMNS)
    print_table(TableView(columns=columns, rows=tuple(rows), truncated=False))


@keys.command()
@click.argument("key_id", metavar="ID")
@server_option
def disable(*, key_id: str, server: str) -> None:
    """Disable a key; it stays in the list."""
    with open_server(server, None) as client:
        made = parse_response(KeyView, client.post(f"{_PATH}/{_checked(key_id)}/disable"))
    click.echo(f"key {made.id} ({one_line(made.name)}) is disabled")


@keys.command()
@click.argument("key_id", metavar="ID")
@server_option
def delete(*, key_id: str, server: str) -> None:
    """Delete a key."""
    with open_server(server, None) as client:
        client.delete(f"{_PATH}/{_checked(key_id)}")
    click.echo(f"key {key_id} is deleted")


def _checked(key_id: str) -> str:
    if not key_id.replace("_", "").isalnum() or not key_id.isascii():
        raise click.ClickException(f"{one_line(key_id)} is not the id of a key; `tracejury keys list` shows them")
    return key_id
