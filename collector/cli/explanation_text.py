"""Results of a trace or a span, and the source of each field of a span, as text."""

from collections.abc import Iterator
from typing import Final

from msgspec import to_builtins
from rich.text import Text

from collector.api.responses.traces import EvaluationDocument, ExternalScoreDocument, SpanDocument, TraceDocument
from collector.cli.text import crop, json_text
from collector.cli.text import widest as widest_of
from collector.escaping import one_line
from collector.result_labels import result_word

_PENDING: Final = frozenset({"waiting", "held", "ready", "claimed", "undecided"})


def judged_lines(judged: TraceDocument | SpanDocument) -> Iterator[tuple[str, str]]:
    """Yield current evaluations, external scores, and decisions without a result yet, each with a style."""
    for evaluation in judged.evaluations:
        if not evaluation.superseded:
            yield _evaluation(evaluation)
    for score in judged.external_scores:
        yield _external_score(score)
    for decision in judged.decisions:
        if decision.decision in _PENDING:
            yield f"{decision.rule}: {decision.decision}", "dim"


def why_lines(judged: SpanDocument) -> Iterator[str]:
    """Yield each decision, with the clause that filtered it."""
    for decision in judged.decisions:
        clause = "" if decision.clause is None else f", not {decision.clause}"
        yield f"{decision.rule}: {result_word(decision.decision)}{clause}"


def _evaluation(evaluation: EvaluationDocument) -> tuple[str, str]:
    reason = f"; {evaluation.reason}" if evaluation.reason else ""
    if evaluation.outcome == "scored":
        passed = result_word("scored", bool(evaluation.passed))
        score = "" if evaluation.score is None else f", {float(evaluation.score):.3g}"
        return f"{evaluation.rule}: {passed}{score}{reason}", "green" if evaluation.passed else "bold red"
    kind = f" ({evaluation.error_kind})" if evaluation.error_kind else ""
    return f"{evaluation.rule}: {result_word(evaluation.outcome)}{kind}{reason}", "yellow"


def _external_score(score: ExternalScoreDocument) -> tuple[str, str]:
    parts = (
        [score.label, None if score.score is None else f"{float(score.score):.3g}"] if score.outcome == "scored" else []
    )
    text = ", ".join(each for each in parts if each) or result_word(score.outcome)
    kind = f" ({score.error_kind})" if score.error_kind else ""
    reason = f"; {score.reason}" if score.reason else ""
    style = "yellow" if score.passed is None else "green" if score.passed else "bold red"
    return f"{score.name} (from elsewhere): {text}{kind}{reason}", style


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
    "finishReason",
    "costUsd",
    "sessionId",
    "userId",
    "error",
    "errorType",
)
_MOST_SOURCE_CELLS = 60


def explanation_text(span: SpanDocument, *, width: int) -> Iterator[Text]:
    """Yield each field with its value and its source (key, event or log), then notes and decisions."""
    yield Text(f"span {one_line(span.span_id)} {one_line(span.name)}\n", style="bold")
    fields = to_builtins(span)
    sources = {name: one_line(source) for name, source in span.sources.items()}
    name_cells = widest_of(FIELDS)
    source_cells = min(widest_of([*sources.values(), "TOLD BY"]), _MOST_SOURCE_CELLS)
    yield Text(f"{'FIELD':<{name_cells}}  {'TOLD BY':<{source_cells}}  VALUE", style="dim")
    for name in FIELDS:
        value = fields[name]
        source = crop(sources.get(name, "-"), source_cells)
        room = max(width - name_cells - source_cells - 4, _MOST_SOURCE_CELLS)
        shown = "-" if value in (None, []) else crop(_value(value), room)
        yield Text(f"{name:<{name_cells}}  {source:<{source_cells}}  {shown}", style="" if name in sources else "dim")
    for note in span.notes:
        yield Text(f"note: {one_line(note)}", style="yellow")
    decided = list(why_lines(span))
    if decided:
        yield Text("\nRULES", style="dim")
    yield from (Text(one_line(line)) for line in decided)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json_text(value, indent=None)
