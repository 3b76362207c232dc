"""Message texts of digests of alerts, and of events about a run that is worse than its baseline."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from collector.delivery.alert_document import Document, alert_document, instant_text
from collector.delivery.words import Words, line_of
from collector.units import count_text
from storage.alerting.alerts import alert_of

_MOST_LINES: Final = 10
"""Maximum number of alerts that a chat message lists; it counts the rest. A guess at what fits into one Slack text."""
_STEPS: Final[Mapping[str, str]] = {
    "alert.opened": "opened",
    "alert.escalated": "worse than reported",
    "alert.acknowledged": "acknowledged",
    "alert.recovered": "recovered",
}
_MOST_CHARACTERS: Final = 200
_MOST_EVALUATORS: Final = 5


def digest_document(digest: Mapping[str, Any]) -> Document:
    """Serialize a digest for receivers: the number of events by type, and each alert as of its last event."""
    return {
        "from": instant_text(digest["from_ns"]),
        "until": instant_text(digest["until_ns"]),
        "counts": dict(digest["counts"]),
        "alerts": [{**alert_document(alert_of(each)), "events": list(each["events"])} for each in digest["alerts"]],
        "alertsLeftOut": digest["left_out"],
    }


def words_of_digest(digest: Mapping[str, Any]) -> Words:
    """Return the lines about a digest, from the document of its event."""
    alerts, left_out = digest["alerts"], digest["left_out"]
    lines = [line_of(alert_of(each)) for each in alerts[:_MOST_LINES]]
    more = len(alerts) - len(lines) + left_out
    count = len(alerts) + left_out
    return Words(
        title=f"Digest: {count} {'alert' if count == 1 else 'alerts'}",
        summary=", ".join(_steps(digest["counts"])),
        facts=(),
        examples=[*lines, f"and {more} more"] if more else lines,
        closing="tracejury alerts list",
    )


def _steps(counts: Mapping[str, int]) -> Sequence[str]:
    return [f"{counts[step]} {words}" for step, words in _STEPS.items() if counts.get(step)]


def words_of_run(run: Mapping[str, Any]) -> Words:
    """Return the lines about a run, from the document of its event."""
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
        summary=f"{rates} passed; {count_text(run['regressedCount'], 'item')} worse, {run['improvedCount']} better",
        facts=facts,
        examples=worse,
        closing=f"tracejury runs compare {run['baselineRunId']} {run['runId']}",
    )


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.1f} %"


def _cut(text: object) -> str:
    whole = str(text)
    return whole if len(whole) <= _MOST_CHARACTERS else whole[: _MOST_CHARACTERS - 1] + "…"
