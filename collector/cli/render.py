"""Output of commands: colours on a terminal, plain text of a stable width elsewhere."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from collector.api.base.times import optional_ns
from collector.api.responses.traces import SpanDocument, TraceDocument, TraceSummaryDocument
from collector.cli import trace_text
from collector.cli.conversation_text import conversation_text
from collector.cli.explanation_text import explanation_text
from collector.cli.terminal import Terminal
from collector.cli.text import fold, json_text
from collector.cli.views import TableView
from collector.escaping import harmless, one_line
from collector.spreadsheet import safe_cell
from collector.units import count_text, duration_text, instant_text

PLAIN_WIDTH = 160
"""Width if standard output is not a terminal: enough for all columns of a list of traces."""

_WIDEST = 1_000_000
_ALL_COLUMNS_CELLS = 120
_LEAST_COLUMN_CELLS = 12
_LEAST_NAME_CELLS = 8
_CELL_LINES = 6
_CELL_CELLS = 60
_LONG_CELLS = 400


class _HarmlessConsole(Console):
    """A console that makes control characters in texts harmless; only its own styles may write them."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print. Outside a terminal, widen tables to their values: a program could not tell that a value was cut."""
        width = self.width
        if not self.is_terminal and (tables := [each for each in objects if isinstance(each, Table)]):
            wide = self.options.update(max_width=_WIDEST)
            self.width = max(Measurement.get(self, wide, each).maximum for each in tables)
        super().print(*objects, **options)
        self.width = width

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Leave the exit code to the caller, as `click` does; rich would exit with 1."""
        raise BrokenPipeError


def _beneath(stream: TextIO) -> TextIO:
    return stream.beneath if isinstance(stream, Terminal) else stream


def print_traces(traces: Sequence[TraceSummaryDocument]) -> None:
    """Print traces in the order received, newest first."""
    console = output_console()
    if not traces:
        console.print("no traces here")
        return
    console.print(traces_table(traces, console.width if console.is_terminal else None), crop=False)


def print_trace(trace: TraceDocument) -> None:
    """Print a trace: its conversation and tool calls, if any, and its tree."""
    console = output_console()
    guides = trace_text.UNICODE if console.encoding.startswith("utf") else trace_text.ASCII
    for text in trace_text.trace_text(trace, width=console.width, guides=guides):
        console.print(text, soft_wrap=True)
    for text in conversation_text(trace, width=console.width, ellipsis=guides.ellipsis):
        console.print(text, soft_wrap=True)


def print_explanation(span: SpanDocument) -> None:
    """Print the source of each field of a span, and the decision of each rule."""
    console = output_console()
    for text in explanation_text(span, width=console.width):
        console.print(text, soft_wrap=True)


def print_json(document: object) -> None:
    """Print a document as JSON, safe for terminals too."""
    sys.stdout.write(json_text(document) + "\n")


def print_json_line(document: object) -> None:
    """Print a document as JSON on one line, for programs that read line by line."""
    sys.stdout.write(json_text(document, indent=None) + "\n")


@contextmanager
def counting(what: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """Show a running count on a terminal, of a known total as a bar; elsewhere, show nothing."""
    columns = () if total is None else (BarColumn(), TimeRemainingColumn())
    progress = Progress(
        "{task.completed} {task.description}",
        *columns,
        console=_HarmlessConsole(file=_beneath(sys.stderr)),
        transient=True,
    )
    progress.disable = not sys.stderr.isatty()
    with progress:
        task = progress.add_task(what, total=total)
        yield lambda count=1: progress.advance(task, count)


def print_table(table: TableView) -> None:
    """Print the result of a query as a table; as records if it is too wide, or has long values outside a terminal."""
    console = output_console()
    is_narrow = len(table.columns) * _LEAST_COLUMN_CELLS > console.width
    if is_narrow or (not console.is_terminal and any(_is_long(value) for row in table.rows for value in row)):
        _print_records(table, console)
    else:
        console.print(_answer_table(table, console.width))
    console.print(count_text(len(table.rows), "row"), style="dim")


def print_table_json(table: TableView) -> None:
    """Print the result of a query as a list of objects."""
    names = unique_names([column.name for column in table.columns])
    print_json([dict(zip(names, row, strict=True)) for row in table.rows])


def print_table_csv(table: TableView, *, is_raw: bool = False) -> None:
    """Write the result of a query as CSV with a header; NULL is empty, arrays and maps are JSON.

    Values that a spreadsheet would compute get an apostrophe, unless `is_raw`.
    """
    shown = str if is_raw else safe_cell
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([shown(column.name) for column in table.columns])
    writer.writerows([None if value is None else shown(_value_text(value)) for value in row] for row in table.rows)


def unique_names(names: Iterable[str]) -> list[str]:
    """Return the names, with a number added to repeated ones, so that an object loses no column."""
    unique: dict[str, None] = {}
    for name in names:
        candidate, number = name, 2
        while candidate in unique:
            candidate, number = f"{name}_{number}", number + 1
        unique[candidate] = None
    return list(unique)


def output_console() -> Console:
    """Return standard output as a console without markup, emoji names or highlighting in texts."""
    width = None if sys.stdout.isatty() else PLAIN_WIDTH
    return _HarmlessConsole(
        file=_beneath(sys.stdout),
        width=width,
        force_terminal=width is None,
        color_system="auto" if width is None else None,
        markup=False,
        emoji=False,
        highlight=False,
    )


def list_table() -> Table:
    """Return a table for a list, without rows yet: bold heads, and two spaces between columns."""
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))


def print_list(console: Console, table: Table) -> None:
    """Print a list without cutting: rich would cut ids, which other commands take. The terminal wraps long lines."""
    console.width = Measurement.get(console, console.options.update(max_width=_WIDEST), table).maximum
    console.print(table, crop=False)


def traces_table(traces: Sequence[TraceSummaryDocument], width: int | None) -> Table:
    """Return a table of traces; ids are never cut, narrow tables lack service and project. Width None cuts nothing."""
    is_whole, width = width is None, PLAIN_WIDTH if width is None else width
    wide = width >= _ALL_COLUMNS_CELLS
    times = (("TRACE", 32), ("STARTED (UTC)", 19)) if wide else (("TRACE", 32), ("STARTED (UTC)", 14))
    numbers = (("DURATION", 11), ("SPANS", 6), ("ERRORS", 6)) if wide else (("DURATION", 11), ("SPANS", 5), ("ERR", 3))
    shares = (("NAME", 0.44), ("SERVICE", 0.28), ("PROJECT", 0.28)) if wide else (("NAME", 1.0),)
    gap = 2 if wide else 1
    room = width - sum(cells + gap for _, cells in (*times, *numbers)) - gap * len(shares)
    least = None if is_whole else _least(room, width)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, gap, 0, 0), width=least)
    for title, cells in times:
        table.add_column(title, width=cells, no_wrap=True)
    for title, share in shares:
        most = None if is_whole else max(int(room * share), _LEAST_NAME_CELLS)
        table.add_column(title, max_width=most, no_wrap=True, overflow="ellipsis")
    for title, cells in numbers:
        table.add_column(title, width=cells, justify="right", no_wrap=True)
    for trace in traces:
        names = (trace.root_span_name or "-", trace.service_name, trace.project)
        table.add_row(
            Text(one_line(trace.trace_id)),
            instant_text(optional_ns(trace.start_time), short=not wide),
            *(Text(one_line(name)) for name in (names if wide else names[:1])),
            duration_text(trace.duration_ms),
            str(trace.span_count),
            Text(str(trace.error_count), style="bold red" if trace.error_count else ""),
        )
    return table


def _least(room: int, width: int) -> int | None:
    # A terminal that is narrower wraps the lines.
    return width + _LEAST_NAME_CELLS - room if room < _LEAST_NAME_CELLS else None


def _answer_table(table: TableView, width: int) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    numeric = [_is_numeric(table, at) for at in range(len(table.columns))]
    for column, right in zip(table.columns, numeric, strict=True):
        shown.add_column(Text(one_line(column.name)), justify="right" if right else "left", overflow="fold")
    cells = max(width // 2, _CELL_CELLS)
    for row in table.rows:
        shown.add_row(*(_cell(value, cells) for value in row))
    return shown


def _print_records(table: TableView, console: Console) -> None:
    names = [one_line(column.name) for column in table.columns]
    name_cells = max(map(len, names))
    for number, row in enumerate(table.rows, start=1):
        console.print(Text(f"row {number}", style="bold"))
        for name, value in zip(names, row, strict=True):
            text = Text(f"  {name:<{name_cells}}  ", style="dim")
            indent = " " * len(text)
            lines = _cell(value, max(console.width - len(text), _CELL_CELLS))
            text.append_text(Text(f"\n{indent}").join(lines.split("\n")))
            console.print(text, soft_wrap=True)


def _is_long(value: object) -> bool:
    return isinstance(value, str | list | dict) and (len(text := _value_text(value)) > _LONG_CELLS or "\n" in text)


def _is_numeric(table: TableView, column: int) -> bool:
    return all(isinstance(row[column], int | float | None) for row in table.rows)


def _cell(value: object, cells: int) -> Text:
    if value is None:
        return Text("NULL", style="dim")
    if not sys.stdout.isatty():
        return Text(harmless(_value_text(value)))
    folded = fold(_value_text(value), width=cells, lines=_CELL_LINES)
    text = Text("\n".join(folded.lines))
    if folded.omitted_chars:
        text.append(f"\n… {count_text(folded.omitted_chars, 'more character')}", style="dim")
    return text


def _value_text(value: object) -> str:
    return value if isinstance(value, str) else json_text(value, indent=None)
