"""The commands `tracejury status` and `tracejury health`."""

import ssl
from pathlib import Path

import click
import httpx

from collector.cli.client import open_source
from collector.cli.connecting import ServerUnreachable, reachable
from collector.cli.options import one_source, read_settings, source_options
from collector.cli.render import print_json
from collector.cli.responses import parse_response
from collector.escaping import one_line


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON object, for scripts.")
@source_options
def status(*, as_json: bool, server: str | None, data: Path | None) -> None:
    """Show stored data, backlogs, pending jobs, recent jobs without a verdict, and the spending of today."""
    from collector.api.responses.server import StatusDocument
    from collector.cli.rule_text import print_status

    one_source(server, data)
    with open_source(server, data) as source:
        document = source.get("/api/v1/status")
    print_json(document) if as_json else print_status(parse_response(StatusDocument, document))


_TIMEOUT_S = 4.0


@click.command()
@click.option("--ready", is_flag=True, help="Also check that it accepts spans.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="The data directory of the server. [default: that of the settings]",
)
def health(*, ready: bool, data: Path | None) -> None:
    """Exit with 0 if the server of a data directory responds (also over TLS), otherwise with 1.

    Sends no key, and prints only problems.
    """
    from storage.engine.lock import read_holder

    directory = read_settings(None, {} if data is None else {"data": data}).data
    holder = read_holder(directory)
    if holder is None or not holder.get("http"):
        raise ServerUnreachable(f"no server holds {one_line(str(directory))}, or it does not listen yet")
    url = f"{reachable(holder['http'])}/{'ready' if ready else 'health'}"
    try:
        answer = httpx.get(url, timeout=_TIMEOUT_S, trust_env=False, verify=_whatever_certificate())
    except httpx.RequestError as error:
        raise ServerUnreachable(f"{url} does not answer ({one_line(str(error) or type(error).__name__)})") from error
    if not answer.is_success:
        raise click.ClickException(f"{url} answers {answer.status_code}: {one_line(answer.text)}")


def _whatever_certificate() -> ssl.SSLContext:
    # The certificate is for the server's public name; this connects to the local process that holds the lock.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
