"""The report of an eval set as a table."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from collector.cli.render import output_console
from collector.escaping import one_line
from collector.evaluation.eval_set import EvalItemResult, EvalSet
from collector.evaluation.report import report_document, score_of
from collector.result_labels import NO_VERDICT, SKIPPED
from evaluators.outcome import Failure, Outcome, Skipped, Verdict


def print_report(eval_set: EvalSet, results: Sequence[EvalItemResult]) -> None:
    """Print a row per item and a column per evaluator, then why items did not pass."""
    weights = {member.id: member.weight for member in eval_set.members}
    document = report_document(eval_set, results)
    table = Table(title=Text(one_line(eval_set.name)), title_justify="left", box=None, pad_edge=False)
    table.add_column("ITEM", overflow="fold")
    for member in eval_set.members:
        table.add_column(Text(one_line(member.id)), overflow="fold")
    table.add_column("SCORE", justify="right")
    for result in results:
        cells = [_cell(result.outcomes.get(member.id)) for member in eval_set.members]
        table.add_row(Text(one_line(result.item.id)), *cells, _number(score_of(result.outcomes, weights)))
    means = [_number(evaluator["mean"]) for evaluator in document["evaluators"]]
    table.add_row(Text("mean"), *means, _number(document["score"]), style="bold")
    output = output_console()
    output.print(table)
    for result in results:
        for evaluator, outcome in result.outcomes.items():
            if not (isinstance(outcome, Verdict) and outcome.success):
                output.print(Text(one_line(f"{result.item.id} · {evaluator}: {_why(outcome)}")), soft_wrap=True)


def _cell(outcome: Outcome | None) -> Text:
    match outcome:
        case None:
            return Text("-", style="dim")
        case Verdict():
            return Text(f"{outcome.score:.2f}{'' if outcome.success else ' !'}", style="" if outcome.success else "red")
        case Failure():
            return Text(NO_VERDICT, style="bold red")
        case Skipped():
            return Text(SKIPPED, style="dim")


def _number(score: float | None) -> Text:
    return Text("-", style="dim") if score is None else Text(f"{score:.2f}")


def _why(outcome: Outcome) -> str:
    return outcome.message if isinstance(outcome, Failure) else outcome.reason
