"""`tracejury webhooks`: receivers of alerts, and tests of them."""

import time
from pathlib import Path

import click
from rich.text import Text

from collector.api.responses.alerting import DeliveryDocument, WebhookDocument
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.cli.text import cell
from collector.escaping import one_line
from collector.path_names import path_segment

_LOOK_AGAIN_S = 0.2
_MOST_REPLAYED = 1000
_URL_CELLS = 60


@click.group()
def webhooks() -> None:
    """List receivers of alerts, test them, and deliver failed events again."""


@webhooks.command("list")
@click.option("--project", metavar="NAME", help="Only receivers of exactly this project.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_webhooks(*, project: str | None, as_json: bool, server: str | None, data: Path | None) -> None:
    """List receivers of alerts."""
    one_source(server, data)
    path = f"/api/v1/projects/{path_segment(project)}/alert-webhooks" if project else "/api/v1/alert-webhooks"
    with open_source(server, data) as client:
        documents = client.whole(path)
    if as_json:
        print_json(documents)
        return
    _print(parse_response(list[WebhookDocument], documents))


@webhooks.command("test")
@click.argument("webhook_id")
@click.option(
    "--wait", type=click.FloatRange(min=0), default=20, show_default=True, help="Seconds to wait for the response."
)
@source_options
def test(*, webhook_id: str, wait: float, server: str | None, data: Path | None) -> None:
    """Send a test to a receiver, and print its response."""
    one_source(server, data)
    with open_server(server, data) as client:
        place = _place(client, webhook_id)
        delivery = parse_response(DeliveryDocument, client.post(f"{place}/test"))
        deadline = time.monotonic() + wait
        while delivery.state == "pending" and not delivery.attempts and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_S)
            delivery = parse_response(DeliveryDocument, client.get(f"{place}/deliveries/{path_segment(delivery.id)}"))
    if delivery.state != "delivered":
        why = delivery.last_error or f"no result within {wait:g} s"
        raise click.ClickException(f"the test was not delivered: {one_line(why)}")
    click.echo(f"delivered: answered {delivery.last_status}")


@webhooks.command("replay")
@click.argument("webhook_id")
@click.argument("delivery_id", nargs=-1)
@click.option("--failed", is_flag=True, help="The latest 1,000 failed deliveries.")
@source_options
def replay(
    *, webhook_id: str, delivery_id: tuple[str, ...], failed: bool, server: str | None, data: Path | None
) -> None:
    """Deliver events to a receiver again, under the same ids."""
    one_source(server, data)
    if bool(delivery_id) is failed:
        raise click.UsageError("name the deliveries, or all with --failed")
    with open_server(server, data) as client:
        place = _place(client, webhook_id)
        ids = list(delivery_id)
        if failed:
            documents = client.listed(f"{place}/deliveries", _MOST_REPLAYED, state="failed")
            ids = [each.id for each in parse_response(list[DeliveryDocument], documents)]
        for each in ids:
            client.post(f"{place}/deliveries/{path_segment(each)}/replay")
    click.echo(f"{len(ids)} queued")


def _place(client: ServerClient, webhook_id: str) -> str:
    for webhook in parse_response(list[WebhookDocument], client.whole("/api/v1/alert-webhooks")):
        if webhook.id == webhook_id:
            return f"/api/v1/projects/{path_segment(webhook.project_name)}/alert-webhooks/{webhook.id}"
    raise click.ClickException(f"no webhook {one_line(webhook_id)} here; `tracejury webhooks list` shows them")


def _print(webhooks: list[WebhookDocument]) -> None:
    console = output_console()
    if not webhooks:
        console.print("no webhooks here")
        return
    table = list_table()
    for title in ("WEBHOOK", "PROJECT", "URL", "TEMPLATE", "SIGNED", "STATE"):
        table.add_column(title, no_wrap=True)
    for each in webhooks:
        texts = (each.id, each.project_name, cell(each.url, _URL_CELLS), each.template)
        signed = "yes" if each.has_secret and each.template != "pagerduty" else "no"
        table.add_row(*(Text(one_line(text)) for text in texts), signed, Text(one_line(_state(each))))
    print_list(console, table)


def _state(webhook: WebhookDocument) -> str:
    if not webhook.enabled:
        return f"off: {webhook.disabled_reason}" if webhook.disabled_reason else "off"
    return f"on, failing since {webhook.failing_since}" if webhook.failing_since else "on"
