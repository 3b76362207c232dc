"""`tracejury annotations`: votes and scores by people, applications and their users."""

from pathlib import Path
from urllib.parse import urlencode

import click

from collector.api.responses.annotations import AnnotationDocument
from collector.cli.client import open_server, open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.path_names import path_segment

_VERDICTS = ("CORRECT", "INCORRECT", "UNSURE")


@click.group()
def annotations() -> None:
    """List annotations by people and applications, and vote."""


@annotations.command("list")
@click.option("--trace", "trace_id", metavar="ID", help="Only annotations of this trace and its spans.")
@click.option("--name", metavar="NAME", help="Only answers to this question.")
@click.option("--history", is_flag=True, help="Include votes that were changed or withdrawn later.")
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_annotations(
    *, as_json: bool, limit: int, history: bool, server: str | None, data: Path | None, **filters: str | None
) -> None:
    """List annotations, latest first."""
    one_source(server, data)
    params = {"traceId": filters["trace_id"], "name": filters["name"], "history": str(history).lower(), "size": limit}
    with open_source(server, data) as client:
        documents = client.get("/api/v1/annotations", **params)
    if as_json:
        print_json(documents)
    else:
        _print(parse_response(list[AnnotationDocument], documents))


@annotations.command("add")
@click.argument("trace_id")
@click.argument("verdict", type=click.Choice(_VERDICTS, case_sensitive=False))
@click.option("--span", metavar="ID", help="A span of the trace.")
@click.option("--name", metavar="NAME", help="Question that the vote answers. [default: verdict]")
@click.option("--note", metavar="TEXT", help="The reason for the vote.")
@click.option("--expected", metavar="TEXT", help="The expected output.")
@click.option("--adjudicates", is_flag=True, help="Override the votes of others.")
@source_options
def add_annotation(
    *, trace_id: str, verdict: str, span: str | None, server: str | None, data: Path | None, **fields: str | bool | None
) -> None:
    """Vote on a trace or a span of it."""
    one_source(server, data)
    fields["overriddenExpectedOutput"] = fields.pop("expected")
    body: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
    path = f"/api/v1/traces/{path_segment(trace_id)}/annotation"
    with open_server(server, data) as client:
        client.put(f"{path}?{urlencode({'spanId': span})}" if span else path, body | {"verdict": verdict.upper()})
    click.echo(f"{verdict.upper()}, of {'the span ' + span if span else 'the trace ' + trace_id}")


def _print(annotations: list[AnnotationDocument]) -> None:
    from rich.text import Text

    from collector.escaping import one_line

    console = output_console()
    if not annotations:
        console.print("no annotations")
        return
    table = list_table()
    for title in ("WHEN (UTC)", "OF", "QUESTION", "ANSWER", "BY", "NOTE"):
        table.add_column(title, overflow="fold")
    for each in annotations:
        answer = each.label if each.label is not None else "" if each.score is None else f"{each.score:g}"
        answer = answer if each.error_kind is None else f"no verdict ({each.error_kind})"
        of = each.session_id or each.item_result_id or "/".join(filter(None, (each.trace_id, each.span_id)))
        state = " (withdrawn)" if each.withdrawn else " (superseded)" if each.superseded else ""
        cells = (
            each.created_at[:19].replace("T", " "),
            f"{each.target} {of}",
            each.name,
            answer + state,
            f"{each.author} ({each.source})",
            each.note or "",
        )
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    print_list(console, table)
