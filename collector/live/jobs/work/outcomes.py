"""Evaluation of a test case: by a check, by one judge, or by the votes of several."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from collector.live.judges.judging import Juror
from evaluators.case import parse_case
from evaluators.errors import BadConfiguration, EvaluationError
from evaluators.evaluator import run
from evaluators.judge_interface import Judge
from evaluators.jury import JudgeVote, outcome_of_votes
from evaluators.outcome import Failure, Outcome
from evaluators.registry import build
from rules.rule import Rule


async def outcome_of(
    rule: Rule, case: Mapping[str, Any], judge_of: Callable[[], Judge] | None, *, limit_s: float
) -> tuple[Outcome, str | None]:
    """Evaluate a test case within `limit_s`; return the outcome, and the model that the judge requests."""
    judge = None
    try:
        judge = None if judge_of is None else judge_of()
        evaluator = build(rule.evaluator, rule.configuration, judge, additions=rule.additions)
        async with asyncio.timeout(limit_s):
            outcome = await run(evaluator, parse_case(case))
    except TimeoutError:
        message = f"not finished within {limit_s:g} s"
        outcome = Failure(name=rule.evaluator, fingerprint=None, kind="timeout", message=message, usage=None)
    except EvaluationError as broken:
        outcome = failure_of(rule, broken)
    return outcome, None if judge is None else judge.model


async def outcome_of_judges(
    rule: Rule,
    jurors: Callable[[], Sequence[Juror]],
    ask: Callable[[str | None], Awaitable[tuple[Outcome, str | None]]],
) -> tuple[Outcome, str | None]:
    """Evaluate with the rule's judge, or by the votes of its jury; return the outcome and the models.

    `ask` gets the id of the connection to use; None: that of the rule. If the jury cannot be formed, the outcome is a
    failure that says why.
    """
    try:
        voting = jurors()
    except BadConfiguration as error:
        return failure_of(rule, error), None
    if not voting:
        return await ask(None)
    return voted(voting, await asyncio.gather(*(ask(each.connection_id) for each in voting)))


def voted(jurors: Sequence[Juror], answers: Sequence[tuple[Outcome, str | None]]) -> tuple[Outcome, str]:
    """Return the outcome by a jury's votes, and the models; `answers` are in the order of `jurors`."""
    votes = [
        JudgeVote(connection=juror.name, model=model, outcome=outcome)
        for juror, (outcome, model) in zip(jurors, answers, strict=True)
    ]
    return outcome_of_votes(votes), ", ".join(vote.model or "?" for vote in votes)


def failure_of(rule: Rule, broken: EvaluationError) -> Failure:
    """Return the outcome of an evaluation that could not be made."""
    return Failure(name=rule.evaluator, fingerprint=None, kind=broken.kind, message=str(broken), usage=None)
