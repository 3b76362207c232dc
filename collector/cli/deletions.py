"""`tracejury deletions`: requested deletions, and their progress."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import click

from collector.api.responses.deletions import DeletionDocument
from collector.api.responses.wire import WireDocument
from collector.api_calls import Value
from collector.cli.client import ServerClient, open_server, open_source
from collector.cli.options import one_source, server_option, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.cli.times import PAST
from collector.cli.views import TableView
from collector.escaping import one_line
from collector.path_names import path_segment
from collector.units import count_text

_COUNTED: Final = """
    SELECT count(*) AS traces, sum(span_count) AS spans FROM traces
    WHERE tenant = $tenant AND ($trace IS NULL OR trace_id = $trace) AND ($project IS NULL OR project = $project)
        AND ($before IS NULL OR start_time < $before::TIMESTAMPTZ AT TIME ZONE 'UTC')
"""


class _Caller(WireDocument):
    tenant: str


class _Trace(WireDocument):
    tenant: str
    span_count: int


class _Page(WireDocument):
    content: list[_Trace]
    next: str | None


@click.command()
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def deletions(*, limit: int, as_json: bool, server: str | None, data: Path | None) -> None:
    """List requested deletions, latest first, with their progress."""
    one_source(server, data)
    with open_source(server, data) as source:
        documents = source.listed("/api/v1/deletions", limit)
    if as_json:
        print_json(documents)
        return
    _print(parse_response(list[DeletionDocument], documents))


@click.command()
@click.option("--trace", metavar="ID", help="The trace with this id.")
@click.option("--project", metavar="NAME", help="All traces of this project; its rules, webhooks and runs stay.")
@click.option("--before", type=PAST, metavar="TIME", help="Only traces of the project that began before.")
@click.option("--tenant", metavar="ID", help="Only data of this tenant, for a key without a tenant.")
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
@click.option("--yes", "is_confirmed", is_flag=True, help="Do not ask for confirmation.")
@server_option
def delete(*, dry_run: bool, is_confirmed: bool, server: str, **options: Any) -> None:
    """Delete a trace, or the traces of a project, permanently: from every table, and soon after from disk.

    Requires an ADMIN key. `tracejury deletions` shows the progress.
    """
    trace, project, before = (options[name] for name in ("trace", "project", "before"))
    if (trace is None) == (project is None):
        raise click.UsageError("pass either --trace ID or --project NAME")
    if trace is not None and before is not None:
        raise click.UsageError("--before needs --project, not --trace")
    what = f"project {one_line(project)}" if trace is None else f"trace {one_line(trace)}"
    values = {
        "trace": None if trace is None else trace.strip().lower(),
        "project": project,
        "before": None if before is None else before.isoformat(),
    }
    with open_server(server, None) as client:
        own_tenant = parse_response(_Caller, client.get("/api/v1/caller")).tenant
        counted = _counted_in_lists if own_tenant else _counted_by_sql
        traces, spans = counted(client, values | {"tenant": options["tenant"] or own_tenant})
        size = f"{count_text(traces, 'trace')} with {count_text(spans, 'span')}"
        if not traces:
            if trace is not None:
                client.get(f"/api/v1/traces/{path_segment(str(values['trace']))}")  # its refusal may have a reason
            raise click.ClickException(f"nothing of {what} is stored")
        if dry_run:
            click.echo(f"would delete {size} of {what}")
            return
        if not is_confirmed:
            click.confirm(f"Delete {size} of {what} for good?", abort=True, err=True)
        named = {**values, "tenant": options["tenant"], "trace": None}
        query = urlencode({name: value for name, value in named.items() if value is not None})
        path = "/api/v1/traces" if trace is None else f"/api/v1/traces/{path_segment(str(values['trace']))}"
        client.delete(f"{path}?{query}" if query else path)
    click.echo(f"deleting {size} of {what}; `tracejury deletions` shows how far it is")


def _counted_by_sql(client: ServerClient, values: Mapping[str, str | None]) -> tuple[int, int]:
    answer = parse_response(TableView, client.post("/api/v1/sql", {"sql": _COUNTED, "parameters": values}))
    traces, spans = (int(str(value or 0)) for value in answer.rows[0])
    return traces, spans


def _counted_in_lists(client: ServerClient, values: Mapping[str, str | None]) -> tuple[int, int]:
    """Count traces and spans in lists of the API, because keys with a tenant may not send SQL."""
    trace, tenant = values["trace"], values["tenant"]
    if trace is not None:
        document = client.find(f"/api/v1/traces/{path_segment(trace)}?{urlencode({'tenant': tenant})}")
        traces = [] if document is None else [parse_response(_Trace, document)]
    else:
        filters: dict[str, Value] = {"project": values["project"], "to": values["before"], "tenant": tenant}
        filters |= {"size": 200, "withinMs": 10_000}
        page = parse_response(_Page, client.get("/api/v1/traces", **filters))
        traces = page.content
        while page.next is not None:
            page = parse_response(_Page, client.get("/api/v1/traces", **filters, before=page.next))
            traces += page.content
    spans = [each.span_count for each in traces if each.tenant == tenant]  # the lists also contain shared traces
    return len(spans), sum(spans)


def _print(rows: list[DeletionDocument]) -> None:
    from rich.text import Text

    console = output_console()
    if not rows:
        console.print("no deletions")
        return
    table = list_table()
    for title in ("DELETION", "STATE", "BY", "ASKED FOR (UTC)", "KEY"):
        table.add_column(title, no_wrap=True)
    for title in ("LOOKED THROUGH", "TRACES", "SPANS"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in rows:
        table.add_row(
            one_line(each.id),
            one_line(each.state),
            Text(one_line(", ".join(each.filters))),
            one_line(each.created_at[:19].replace("T", " ")),
            Text(one_line(each.created_by or "-")),
            f"{each.looked_through:.0%}",
            f"{each.deleted_traces:,}",
            f"{each.deleted_spans:,}",
        )
    print_list(console, table)
