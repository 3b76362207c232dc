"""`tracejury traces`: stored traces."""

from pathlib import Path
from typing import Any, Final

import click

from collector.api.responses.traces import SpanDocument, TraceDocument, TracePage, TraceSummaryDocument
from collector.api_calls import texts_of
from collector.cli.client import ServerClient, open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import print_explanation, print_json, print_trace, print_traces
from collector.cli.responses import parse_response
from collector.escaping import one_line
from collector.path_names import path_segment
from storage.query.text_pattern import SEARCHED

_TRACES: Final = "/api/v1/traces"
_MOST_AT_ONCE: Final = 200  # traces in one response of the API


@click.group()
def traces() -> None:
    """Look at the traces that arrived."""


@traces.command("list")
@click.option("--project", metavar="NAME", help="Only traces of this project.")
@click.option("--rule", metavar="NAME", help="Only traces that this rule judged, by its name or id.")
@click.option("--passed/--not-passed", default=None, help="Only traces with such a counted result.")
@click.option(
    "--outcome",
    type=click.Choice(["scored", "failed", "skipped"]),
    help="Only traces with such a result (failed: no verdict).",
)
@click.option("--text", metavar="TEXT", help=f"Only traces with this text in a span, in any case: {SEARCHED}.")
@click.option("--before", metavar="POSITION", help="With --text: continue a search that stopped here.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_traces(*, limit: int, as_json: bool, server: str | None, data: Path | None, **filters: Any) -> None:
    """List the newest traces, or those with certain results of rules, or with a text.

    A search for a text stops after ten seconds, and says how far back it came.
    """
    one_source(server, data)
    if filters["before"] is not None and filters["text"] is None:
        raise click.UsageError("--before continues a search with --text")
    with open_source(server, data) as source:
        if filters["text"] is None:
            documents = source.listed(_TRACES, limit, "traceId", **filters)
        else:
            documents = _with_text(source, limit, filters)
    if as_json:
        print_json(documents)
    else:
        print_traces(parse_response(list[TraceSummaryDocument], documents))


def _with_text(source: ServerClient, limit: int, filters: dict[str, Any]) -> list[object]:
    """Return the newest traces with a text; print where the search stopped to the standard error."""
    documents: list[object] = []
    while True:
        size = min(limit - len(documents), _MOST_AT_ONCE)
        document = source.document("GET", _TRACES, params=texts_of(filters | {"size": size}))
        page = parse_response(TracePage, document)
        content = document["content"]
        documents += content if isinstance(content, list) else []
        if page.next is None or page.searched_to is not None or len(documents) >= limit:
            break
        filters = filters | {"before": page.next}
    if page.next is None:
        click.echo("Searched all traces.", err=True)
    else:
        back = f" back to {page.searched_to}" if page.searched_to else ""
        position = one_line(page.next)
        click.echo(f"Searched{back}; older traces may also match. Continue with --before {position}", err=True)
    return documents


@traces.command("show")
@click.argument("trace_id")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known about it, as JSON.")
@click.option("--otlp", "as_otlp", is_flag=True, help="Print the trace as OTLP/JSON, for `tracejury send`.")
@click.option(
    "--explain",
    metavar="SPAN",
    help=("Explain this span: the source key of each field, and the decision of each rule. The id may be shortened."),
)
@source_options
def show_trace(
    *, trace_id: str, as_json: bool, as_otlp: bool, explain: str | None, server: str | None, data: Path | None
) -> None:
    """Show a trace: its conversation, its tool calls, and the tree of its spans."""
    one_source(server, data)
    if as_json + as_otlp + (explain is not None) > 1:
        raise click.UsageError("--json, --otlp and --explain exclude each other")
    path = f"/api/v1/traces/{path_segment(trace_id.strip().lower())}"
    with open_source(server, data) as source:
        document = source.find(f"{path}/otlp" if as_otlp else path)
    if document is None:
        raise click.ClickException(f"no trace {one_line(trace_id)} here; `tracejury traces list` shows the newest")
    if as_json or as_otlp:
        print_json(document)
    elif explain is not None:
        print_explanation(_span_of(parse_response(TraceDocument, document), explain))
    else:
        print_trace(parse_response(TraceDocument, document))


def _span_of(trace: TraceDocument, prefix: str) -> SpanDocument:
    spans = [span for span in trace.spans if span.span_id.startswith(prefix.strip().lower())]
    if len(spans) != 1:
        count = f"{len(spans)} spans" if spans else "no span"
        raise click.ClickException(f"the trace has {count} whose id starts with {one_line(prefix)}")
    return spans[0]
