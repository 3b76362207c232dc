"""`tracejury jobs`: list evaluations, and retry failed ones."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.text import Text

from collector.api.base.times import instant_ns
from collector.api.responses.judging import JobDocument, RetriedJobs
from collector.cli.client import open_source
from collector.cli.options import one_source, source_options
from collector.cli.render import list_table, output_console, print_json, print_list
from collector.cli.responses import parse_response
from collector.cli.text import cell
from collector.escaping import one_line
from collector.result_labels import job_word
from collector.units import instant_text

_PATH: Final = "/api/v1/jobs"
_STATES = ("waiting", "held", "ready", "claimed", "scored", "failed", "skipped", "superseded")


@click.group()
def jobs() -> None:
    """List pending and finished evaluations, and retry failed ones."""


@jobs.command("list")
@click.option("--state", type=click.Choice(_STATES), help="Only jobs in this state.")
@click.option("--rule", metavar="NAME", help="Only jobs of this rule, by its name or id.")
@click.option("--trace", metavar="ID", help="Only jobs of this trace and its spans.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most this many.")
@click.option("--json", "as_json", is_flag=True, help="A JSON list, for scripts.")
@source_options
def list_jobs(*, limit: int, as_json: bool, server: str | None, data: Path | None, **filters: str | None) -> None:
    """List the newest jobs."""
    one_source(server, data)
    with open_source(server, data) as source:
        documents = source.listed(_PATH, limit, **filters)
    if as_json:
        print_json(documents)
    else:
        print_jobs(parse_response(list[JobDocument], documents))


@jobs.command("retry")
@click.argument("ids", metavar="ID…", nargs=-1, type=click.IntRange(min=0, max=2**63 - 1))
@click.option("--failed", is_flag=True, help="All jobs that gave up, instead of ids.")
@click.option("--rule", metavar="NAME", help="Jobs of this rule that gave up, by name or id.")
@click.option("--error", metavar="KIND", help="Jobs that gave up with this kind of error, as shown by `jobs list`.")
@source_options
def retry_jobs(
    *, ids: tuple[int, ...], failed: bool, rule: str | None, error: str | None, server: str | None, data: Path | None
) -> None:
    """Retry jobs that gave up. The earlier results are kept as superseded."""
    one_source(server, data)
    filters = {key: value for key, value in (("rule", rule), ("errorKind", error)) if value is not None}
    if bool(ids) == bool(failed or filters):
        raise click.UsageError("pass ids of jobs, or select jobs that gave up with --failed, --rule and --error")
    with open_source(server, data) as source:
        retried = len(ids)
        for job_id in ids:
            source.post(f"{_PATH}/{job_id}/retry")
        if not ids:
            retried = parse_response(RetriedJobs, source.post(f"{_PATH}/retry", filters)).retried
    click.echo(f"{retried} to be evaluated again")


_NAME_CELLS: Final = 30
_ERROR_CELLS: Final = 60
_STYLES: Final = {"failed": "bold red", "scored": "green"}


def print_jobs(jobs: Sequence[JobDocument]) -> None:
    """Print jobs in the order received, newest first."""
    console = output_console()
    if not jobs:
        console.print("no jobs here")
        return
    error_cells = _ERROR_CELLS if console.is_terminal else None
    table = list_table()
    table.add_column("JOB", justify="right", no_wrap=True)
    for title in ("STATE", "RULE", "TRACE", "SPAN", "CREATED (UTC)"):
        table.add_column(title, no_wrap=True)
    table.add_column("ATTEMPTS", justify="right", no_wrap=True)
    table.add_column("ERROR", no_wrap=True, max_width=error_cells, overflow="ellipsis")
    for job in jobs:
        table.add_row(
            str(job.id),
            Text(one_line(job_word(job.state)), style=_STYLES.get(job.state, "")),
            Text(cell(job.rule, _NAME_CELLS)),
            Text(one_line(job.trace_id)),
            Text(_part(job)),
            instant_text(instant_ns(job.created_at), short=False),
            str(job.attempts),
            Text(cell(_error(job), _ERROR_CELLS)),
        )
    print_list(console, table)


def _part(job: JobDocument) -> str:
    if job.session_id is not None:
        return f"session {cell(job.session_id, _NAME_CELLS)}"
    return one_line(job.span_id or "-")


def _error(job: JobDocument) -> str:
    return ": ".join(part for part in (job.error_kind, job.error) if part)
