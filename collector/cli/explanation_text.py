"""Which key told each field of a span, for a person who asks why a field is empty or wrong."""

from collections.abc import Iterator, Mapping

from rich.text import Text

from collector.cli.judged_text import why_lines
from collector.cli.text import crop, json_text
from collector.cli.text import widest as widest_of
from collector.cli.views import JudgedView
from collector.visible import one_line

FIELDS = (
    "dialect",
    "spanType",
    "input",
    "output",
    "inputMessages",
    "outputMessages",
    "toolName",
    "toolCallId",
    "toolArguments",
    "toolResult",
    "toolDefinitions",
    "model",
    "provider",
    "inputTokens",
    "outputTokens",
    "cachedTokens",
    "reasoningTokens",
    "costUsd",
    "sessionId",
    "userId",
    "error",
    "errorType",
)
_MOST_SOURCE_CELLS = 60


def explanation_text(span: Mapping[str, object], judged: JudgedView, *, width: int) -> Iterator[Text]:
    """Every field with the key, event or log that told it and its value; the notes; what each rule decided."""
    yield Text(f"span {one_line(str(span.get('spanId')))} {one_line(str(span.get('name')))}\n", style="bold")
    told = span.get("sources")
    sources = {name: one_line(str(source)) for name, source in told.items()} if isinstance(told, Mapping) else {}
    name_cells = widest_of(FIELDS)
    source_cells = min(widest_of([*sources.values(), "TOLD BY"]), _MOST_SOURCE_CELLS)
    yield Text(f"{'FIELD':<{name_cells}}  {'TOLD BY':<{source_cells}}  VALUE", style="dim")
    for name in FIELDS:
        value = span.get(name)
        source = crop(sources.get(name, "-"), source_cells)
        room = max(width - name_cells - source_cells - 4, _MOST_SOURCE_CELLS)
        shown = "-" if value in (None, []) else crop(_value(value), room)
        yield Text(f"{name:<{name_cells}}  {source:<{source_cells}}  {shown}", style="" if name in sources else "dim")
    notes = span.get("notes")
    for note in notes if isinstance(notes, list) else ():
        yield Text(f"note: {one_line(str(note))}", style="yellow")
    decided = list(why_lines(judged))
    if decided:
        yield Text("\nRULES", style="dim")
    yield from (Text(one_line(line)) for line in decided)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json_text(value, indent=None)
