"""Bodies that receivers are sent: our own JSON, or the formats of Slack, Teams and PagerDuty.

Sources: Slack's "Block Kit" reference; "Create incoming webhooks with Workflows for Microsoft Teams" and the Adaptive
Cards schema 1.4; PagerDuty's "Events API v2".
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from collector.delivery.alert_document import Document, alert_document, finite, instant_text
from collector.delivery.event_words import digest_document, words_of_digest, words_of_run
from collector.delivery.words import Words, words_of
from storage.alerting.alerts import Alert, alert_of
from storage.alerting.outbox import DIGEST, RUN_REGRESSION, TEST, DueDelivery
from storage.alerting.webhook_options import Template
from storage.records import EventType, JsonValue

_SLACK_CHARACTERS = 1900  # Slack allows 2,000 in a field
_DECIMALS = 6  # of `passRateDelta`, as receivers written for Dokimos expect


@dataclass(frozen=True, slots=True, kw_only=True)
class EventData:
    """The data of an event. `alert` is None for a test, a digest, and an event about a run."""

    event_id: str
    type: EventType
    at_ns: int
    project: str | None
    alert: Alert | None
    run: Document | None = None  # if the event is about a run: its document
    digest: Mapping[str, Any] | None = None  # if the event is a digest: its content
    secret: str | None  # PagerDuty's routing key


def telling_of(due: DueDelivery, *, project: str | None, secret: str | None) -> EventData:
    """Return the event data of a delivery; `project`, the receiver's, is used for tests and digests."""
    run = finite(due.document["run"]) if due.type == RUN_REGRESSION else None
    digest = due.document["digest"] if due.type == DIGEST else None
    alert = None if due.type in {TEST, DIGEST, RUN_REGRESSION} else alert_of(due.document)
    return EventData(
        event_id=due.event_id,
        type=due.type,
        at_ns=due.created_at_ns,
        project=alert.finding.project if alert else str(run["projectName"]) if isinstance(run, dict) else project,
        alert=alert,
        run=run if isinstance(run, dict) else None,
        digest=digest if isinstance(digest, dict) else None,
        secret=secret,
    )


def render(template: Template, telling: EventData) -> bytes:
    """Render the body as ASCII JSON; retries of an event get the same bytes."""
    document = finite(_TEMPLATES[template](telling))
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")


def _plain(telling: EventData) -> Document:
    """Return Dokimos's fields, with the rule as experiment and releases as runs; `data` holds the alert or digest."""
    if telling.run is not None:
        return _plain_run(telling, telling.run)
    finding = telling.alert.finding if telling.alert else None
    document: Document = {"message": "a test of this webhook"}
    if telling.digest is not None:
        document = digest_document(telling.digest)
    elif telling.alert is not None:
        document = alert_document(telling.alert)
    rates = (finding.baseline.rate, finding.candidate.rate) if finding else None
    return {
        "type": telling.type,
        "timestamp": instant_text(telling.at_ns),
        "projectName": telling.project,
        "experimentId": finding.rule_id if finding else None,
        "experimentName": finding.rule if finding else None,
        "runId": finding.candidate.release if finding else None,
        "baselineRunId": finding.baseline.release if finding else None,
        "baselinePassRate": rates[0] if rates else None,
        "candidatePassRate": rates[1] if rates else None,
        "passRateDelta": round(rates[1] - rates[0], _DECIMALS) if rates else None,
        "regressedCaseCount": finding.regressed_count if finding else None,
        "data": document,
    }


def _plain_run(telling: EventData, run: Document) -> Document:
    """Return the fields of Dokimos for a run, and its document under `data`."""
    names = ("experimentId", "experimentName", "runId", "baselineRunId")
    rates = ("baselinePassRate", "candidatePassRate", "passRateDelta")
    return {
        "type": telling.type,
        "timestamp": instant_text(telling.at_ns),
        "projectName": telling.project,
        **{name: run[name] for name in (*names, *rates)},
        "regressedCaseCount": run["regressedCount"],
        "data": run,
    }


def _words(telling: EventData) -> Words:
    if telling.run is not None:
        return words_of_run(telling.run)
    if telling.digest is not None:
        return words_of_digest(telling.digest)
    return words_of(telling.type, telling.alert, telling.project)


def _slack(telling: EventData) -> Document:
    words = _words(telling)
    whole = f"{words.title}: {words.summary}"  # for a cut header: titles end with the service and release
    blocks: list[JsonValue] = [
        {"type": "header", "text": {"type": "plain_text", "text": _cut(words.title, _SLACK_HEADER), "emoji": False}},
        {"type": "section", "text": _marked(words.summary if len(words.title) <= _SLACK_HEADER else whole)},
    ]
    if words.facts:
        fields: list[JsonValue] = [_marked(value, name) for name, value in words.facts[:10]]
        blocks.append({"type": "section", "fields": fields})
    if words.examples:
        lines = "\n".join(f"• {line}" for line in words.examples)
        blocks.append({"type": "section", "text": _marked(lines)})
    closing: JsonValue = {"type": "plain_text", "text": _cut(words.closing, 2000), "emoji": False}
    blocks.append({"type": "context", "elements": [closing]})
    return {"text": _slack_text(whole), "blocks": blocks}


def _teams(telling: EventData) -> Document:
    words = _words(telling)
    body: list[JsonValue] = [
        _line(words.title, weight="Bolder", size="Medium"),
        _line(words.summary),
        *(_named_line(name, value) for name, value in words.facts),
        *(_line(line) for line in words.examples),
        _line(words.closing, isSubtle=True, size="Small"),
    ]
    card: Document = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    }
    attachment: JsonValue = {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": None,
        "content": card,
    }
    return {"type": "message", "attachments": [attachment]}


def _pagerduty(telling: EventData) -> Document:
    """Return the event. A test resolves an incident that does not exist, which checks the key and pages no person."""
    if telling.run is not None:
        return _pagerduty_run(telling, telling.run)
    alert = telling.alert
    words = words_of(telling.type, alert, telling.project)
    event: Document = {
        "routing_key": telling.secret,
        "event_action": _ACTIONS[telling.type],
        "dedup_key": alert.alert_id if alert else f"tracejury-test-{telling.event_id}",
    }
    if alert is None or telling.type not in {"alert.opened", "alert.escalated"}:
        return event
    payload: Document = {
        "summary": _cut(f"{words.title}: {words.summary}", 1024),
        "source": telling.project or "tracejury",
        "severity": alert.finding.severity if alert.finding.metric else "error",
        "timestamp": instant_text(telling.at_ns),
        "component": alert.finding.rule,
        "group": telling.project,
        "class": alert.finding.kind,
        "custom_details": alert_document(alert),
    }
    return event | {"client": "Tracejury", "payload": payload}


def _pagerduty_run(telling: EventData, run: Document) -> Document:
    """Return an incident for a run. Only a person can resolve it, because a finished run does not recover."""
    words = words_of_run(run)
    payload: Document = {
        "summary": _cut(f"{words.title}: {words.summary}", 1024),
        "source": telling.project or "tracejury",
        "severity": "error",
        "timestamp": instant_text(telling.at_ns),
        "component": run["experimentName"],
        "group": telling.project,
        "class": "run",
        "custom_details": run,
    }
    return {
        "routing_key": telling.secret,
        "event_action": _ACTIONS[telling.type],
        "dedup_key": f"tracejury-run-{run['runId']}",
        "client": "Tracejury",
        "payload": payload,
    }


_SLACK_HEADER: Final = 150  # characters that Slack takes

_ACTIONS: Final[Mapping[EventType, str]] = {
    "alert.opened": "trigger",
    "alert.escalated": "trigger",
    "alert.acknowledged": "acknowledge",
    "alert.recovered": "resolve",
    "alert.digest": "resolve",  # never sent: a PagerDuty receiver with digests is refused
    "RUN_REGRESSION": "trigger",
    "webhook.test": "resolve",
}

_TEMPLATES: Final[Mapping[Template, Callable[[EventData], Document]]] = {
    "json": _plain,
    "slack": _slack,
    "teams": _teams,
    "pagerduty": _pagerduty,
}


def _line(text: str, **looks: JsonValue) -> JsonValue:
    return {"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text, **looks}]}


def _named_line(name: str, value: str) -> JsonValue:
    runs: list[JsonValue] = [
        {"type": "TextRun", "text": f"{name}: ", "weight": "Bolder"},
        {"type": "TextRun", "text": value},
    ]
    return {"type": "RichTextBlock", "inlines": runs}


def _marked(text: str, name: str | None = None) -> JsonValue:
    above = f"*{_slack_text(name)}*\n" if name else ""
    return {"type": "mrkdwn", "text": above + _cut(_slack_text(text), _SLACK_CHARACTERS), "verbatim": True}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else text[: characters - 1] + "…"
