"""What a digest says to a person, and to a program."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from collector.delivery.alert_document import Document, alert_document, instant_text
from collector.delivery.words import Words, line_of
from storage.alerting.alerts import alert_of

_MOST_LINES: Final = 10
"""Alerts that a message for people lists; the rest is counted. A guess at what fits into one text of Slack's."""
_STEPS: Final[Mapping[str, str]] = {
    "alert.opened": "opened",
    "alert.escalated": "worse than was told",
    "alert.acknowledged": "looked after",
    "alert.recovered": "over",
}


def digest_document(digest: Mapping[str, Any]) -> Document:
    """A digest as receivers get it: how many events there were, and each alert as it was after its last."""
    return {
        "from": instant_text(digest["from_ns"]),
        "until": instant_text(digest["until_ns"]),
        "counts": dict(digest["counts"]),
        "alerts": [{**alert_document(alert_of(each)), "events": list(each["events"])} for each in digest["alerts"]],
        "alertsLeftOut": digest["left_out"],
    }


def words_of_digest(digest: Mapping[str, Any]) -> Words:
    """The lines about a digest, of the document of its event."""
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
