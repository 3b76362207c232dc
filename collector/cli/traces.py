"""`tracejury traces`: what arrived."""

from pathlib import Path
from typing import Any

import click

from collector.cli.answer_view import read_view
from collector.cli.asking import open_source
from collector.cli.connecting import Document
from collector.cli.options import one_source, source_options
from collector.cli.render import print_explanation, print_json, print_trace, print_traces
from collector.cli.views import JudgedView, SummaryView, TraceView
from collector.path_names import path_segment
from collector.visible import one_line


@click.group()
def traces() -> None:
    """Look at the traces that arrived."""


@traces.command("list")
@click.option("--project", metavar="NAME", help="Only traces of this project.")
@click.option("--rule", metavar="NAME", help="Only traces that this rule judged, by its name or id.")
@click.option("--passed/--not-passed", default=None, help="Only traces of which a judgement that counts says so.")
@click.option(
    "--outcome",
    type=click.Choice(["scored", "failed", "skipped"]),
    help="Only traces with such a result; failed: with no verdict.",
)
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_traces(
    *, project: str | None, limit: int, as_json: bool, server: str | None, data: Path | None, **judging: Any
) -> None:
    """The newest traces, or those that the rules judged so."""
    one_source(server, data)
    with open_source(server, data) as source:
        documents = source.listed("/api/v1/traces", limit, "traceId", project=project, **judging)
    if as_json:
        print_json(documents)
    else:
        print_traces([read_view(SummaryView, document) for document in documents])


@traces.command("show")
@click.argument("trace_id")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known about it, as JSON.")
@click.option("--otlp", "as_otlp", is_flag=True, help="The trace as OTLP/JSON, as `tracejury send` takes it.")
@click.option(
    "--explain",
    metavar="SPAN",
    help="Explain this span: which key gave each field, and what each rule decided; the id may be shortened.",
)
@source_options
def show_trace(
    *, trace_id: str, as_json: bool, as_otlp: bool, explain: str | None, server: str | None, data: Path | None
) -> None:
    """One trace: its conversation, its tool calls, and the tree of its spans."""
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
        span = _span_of(document, explain)
        print_explanation(span, read_view(JudgedView, span))
    else:
        print_trace(read_view(TraceView, document))


def _span_of(trace: Document, wanted: str) -> Document:
    """The one span of the trace whose id starts so."""
    spans = trace.get("spans")
    found = [
        span
        for span in (spans if isinstance(spans, list) else [])
        if isinstance(span, dict) and str(span.get("spanId")).startswith(wanted.strip().lower())
    ]
    if len(found) != 1:
        there = "no span" if not found else f"{len(found)} spans"
        raise click.ClickException(f"the trace has {there} whose id starts with {one_line(wanted)}")
    only: Document = found[0]
    return only
