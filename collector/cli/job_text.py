"""Jobs on a terminal."""

from collections.abc import Sequence
from typing import Final

from rich.text import Text

from collector.cli.render import list_table, output_console, print_list
from collector.cli.text import cell
from collector.cli.views import JobView
from collector.result_words import job_word
from collector.units import instant_text
from collector.visible import one_line

_NAME_CELLS: Final = 30
_ERROR_CELLS: Final = 60
_STYLES: Final = {"failed": "bold red", "scored": "green"}


def print_jobs(jobs: Sequence[JobView]) -> None:
    """The list of jobs, newest first as they came."""
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
            instant_text(job.created_ns, short=False),
            str(job.attempts),
            Text(cell(_error(job), _ERROR_CELLS)),
        )
    print_list(console, table)


def _part(job: JobView) -> str:
    """The span of the trace, or of which session it is the latest."""
    if job.session_id is not None:
        return f"session {cell(job.session_id, _NAME_CELLS)}"
    return one_line(job.span_id or "-")


def _error(job: JobView) -> str:
    return ": ".join(part for part in (job.error_kind, job.error) if part)
