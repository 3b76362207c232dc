"""What the event about a run that is worse says to a person."""

from collections.abc import Mapping
from typing import Any, Final

from collector.delivery.words import Words

_MOST_CHARACTERS: Final = 200
_MOST_EVALUATORS: Final = 5


def words_of_run(run: Mapping[str, Any]) -> Words:
    """The lines about a run, of the document of its event."""
    rates = " → ".join(_percent(run[name]) for name in ("baselinePassRate", "candidatePassRate"))
    facts = [
        ("Project", _cut(run["projectName"])),
        ("Run", _cut(run["runName"] or run["runId"])),
        ("Baseline", _cut(run["baselineRunName"] or run["baselineRunId"])),
    ]
    if run["gitBranch"]:
        facts.append(("Branch", _cut(run["gitBranch"])))
    worse = [
        f"{_cut(each['evaluator'])}: {each['baselineMean']:.3f} → {each['candidateMean']:.3f}"
        for each in run["regressedEvaluators"][:_MOST_EVALUATORS]
    ]
    return Words(
        title=f"A run is worse: {_cut(run['experimentName'])}",
        summary=f"{rates} passed; {run['regressedCount']} items worse, {run['improvedCount']} better",
        facts=facts,
        examples=worse,
        closing=f"tracejury runs compare {run['baselineRunId']} {run['runId']}",
    )


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f} %"


def _cut(text: object) -> str:
    told = str(text)
    return told if len(told) <= _MOST_CHARACTERS else told[: _MOST_CHARACTERS - 1] + "…"
