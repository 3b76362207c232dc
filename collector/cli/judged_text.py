"""What the rules, and others, made of a trace or a span, for a person to read."""

from collections.abc import Iterator
from typing import Final

from collector.cli.views import EvaluationView, ExternalScoreView, JudgedView

_PENDING: Final = frozenset({"waiting", "held", "ready", "claimed", "undecided"})


def judged_lines(judged: JudgedView) -> Iterator[tuple[str, str]]:
    """A line an evaluation that counts, one a score from elsewhere, and one a decision of which nothing has come yet.

    Each comes with its style.
    """
    for evaluation in judged.evaluations:
        if not evaluation.superseded:
            yield _evaluation(evaluation)
    for score in judged.external_scores:
        yield _external_score(score)
    for decision in judged.decisions:
        if decision.decision in _PENDING:
            yield f"{decision.rule}: {decision.decision}", "dim"


def why_lines(judged: JudgedView) -> Iterator[str]:
    """A line a decision, with the clause that filtered it."""
    for decision in judged.decisions:
        told = decision.decision.replace("_", " ")
        yield f"{decision.rule}: {told}" + ("" if decision.clause is None else f", not {decision.clause}")


def _evaluation(evaluation: EvaluationView) -> tuple[str, str]:
    reason = f"; {evaluation.reason}" if evaluation.reason else ""
    if evaluation.outcome == "scored":
        passed = "passed" if evaluation.passed else "failed"
        score = "" if evaluation.score is None else f", {evaluation.score:.3g}"
        return f"{evaluation.rule}: {passed}{score}{reason}", "green" if evaluation.passed else "bold red"
    kind = f" ({evaluation.error_kind})" if evaluation.error_kind else ""
    told = "no verdict" if evaluation.outcome == "failed" else evaluation.outcome
    return f"{evaluation.rule}: {told}{kind}{reason}", "yellow"


def _external_score(score: ExternalScoreView) -> tuple[str, str]:
    found = [score.label, None if score.score is None else f"{score.score:.3g}"]
    told = ", ".join(each for each in found if each) or score.outcome
    kind = f" ({score.error_kind})" if score.error_kind else ""
    reason = f"; {score.reason}" if score.reason else ""
    style = "yellow" if score.passed is None else "green" if score.passed else "bold red"
    return f"{score.name} (from elsewhere): {told}{kind}{reason}", style
