"""`tracejury alerts`: drops of quality, and their acknowledgement."""

import datetime as dt
from pathlib import Path

import click

from collector.api.responses.alerting import AlertDocument
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import print_json
from collector.cli.responses import parse_response
from collector.cli.times import COMING
from collector.path_names import path_segment

_STATES = ("open", "acknowledged", "recovered")


@click.group()
def alerts() -> None:
    """List alerts about drops of quality; acknowledge, resolve and mute them."""


@alerts.command("list")
@click.option("--project", metavar="NAME", help="Only alerts of this project.")
@click.option("--rule", metavar="RULE", help="Only alerts of this rule, by name or id.")
@click.option("--state", type=click.Choice(_STATES), help="Only alerts in this state.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_alerts(*, as_json: bool, limit: int, server: str | None, data: Path | None, **filters: str | None) -> None:
    """List the newest alerts."""
    from collector.cli.alert_text import print_alerts

    one_source(server, data)
    with open_source(server, data) as client:
        alerts = client.listed("/api/v1/alerts", limit, **filters)
    if as_json:
        print_json(alerts)
    else:
        print_alerts(parse_response(list[AlertDocument], alerts))


@alerts.command("show")
@click.argument("alert_id")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known about it, as JSON.")
@source_options
def show_alert(*, alert_id: str, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show an alert: both sides, the evidence, the worst results, and the SQL that reproduces the numbers."""
    from collector.cli.alert_text import print_alert

    one_source(server, data)
    with open_source(server, data) as client:
        alert = client.get(f"/api/v1/alerts/{path_segment(alert_id)}")
    if as_json:
        print_json(alert)
    else:
        print_alert(parse_response(AlertDocument, alert))


@alerts.command("resolve")
@click.argument("alert_id")
@click.option("--by", metavar="NAME", help="Name of the person who resolved it.")
@source_options
def resolve(*, alert_id: str, by: str | None, server: str | None, data: Path | None) -> None:
    """Resolve an alert. Receivers are notified, and get no more notifications of this episode."""
    one_source(server, data)
    with open_server(server, data) as client:
        _note(client, f"/api/v1/alerts/{path_segment(alert_id)}/resolve", by)


@alerts.command("mute")
@click.option(
    "--until", required=True, type=COMING, metavar="TIME", help="Such as 2026-11-21T10:00:00Z, or 8h from now."
)
@click.option("--project", metavar="NAME", help="Only alerts of this project.")
@click.option("--rule", metavar="RULE", help="Only alerts of this rule or metric monitor, by name or id.")
@click.option("--by", metavar="NAME", help="Name of the person who mutes them.")
@source_options
def mute(*, until: dt.datetime, server: str | None, data: Path | None, **optional: str | None) -> None:
    """Mute notifications of alerts until a time. Alerts still open."""
    one_source(server, data)
    with open_server(server, data) as client:
        body = {"until": until.isoformat()} | {key: value for key, value in optional.items() if value is not None}
        print_json(client.post("/api/v1/alert-mutes", body))


@alerts.command("mutes")
@source_options
def list_mutes(*, server: str | None, data: Path | None) -> None:
    """List mutes as JSON."""
    one_source(server, data)
    with open_source(server, data) as client:
        print_json(client.whole("/api/v1/alert-mutes"))


@alerts.command("unmute")
@click.argument("mute_id")
@source_options
def unmute(*, mute_id: str, server: str | None, data: Path | None) -> None:
    """Unmute alerts. Missed notifications are not sent."""
    one_source(server, data)
    with open_server(server, data) as client:
        client.delete(f"/api/v1/alert-mutes/{path_segment(mute_id)}")
    click.echo("unmuted")


@alerts.command("acknowledge")
@click.argument("alert_id")
@click.option("--by", metavar="NAME", help="Name of the person who works on it.")
@source_options
def acknowledge(*, alert_id: str, by: str | None, server: str | None, data: Path | None) -> None:
    """Acknowledge an alert, to show that someone works on it. Receivers are notified."""
    one_source(server, data)
    with open_server(server, data) as client:
        _note(client, f"/api/v1/alerts/{path_segment(alert_id)}/acknowledge", by)


def _note(client: ServerClient, place: str, by: str | None) -> None:
    from collector.cli.alert_text import print_alert

    print_alert(parse_response(AlertDocument, client.post(place, {"by": by} if by else {})))
