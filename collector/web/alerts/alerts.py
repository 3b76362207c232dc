"""Pages of alerts: the change for the worse, its evidence, and the person who handles it."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.alert_lines import end_rate, end_text, service_of
from collector.api.access.tenants import refuse_shared
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.documents.rule_documents import comparisons_of
from collector.api.review.judge_accuracy import corrected_alert
from collector.live.monitors.metric_looks import metric_state_of, text_of
from collector.metric_monitor_text import SCOPES, MetricMonitorText, MetricName
from collector.units import metric_text
from collector.web.alerts.muting import HOURS, mute_alert, mutes_of
from collector.web.charts.small import evidence_bar, whisker
from collector.web.navigation import may_use
from collector.web.quality.quality_numbers import is_of_people, short_print
from collector.web.questions import criteria_of_revision, questions_of
from collector.web.rendering import page, see_other
from collector.web.visitor import FormDep, page_router, with_parameters
from storage.alerting.alerts import Alert, AlertFilter, AlertFinding
from storage.errors import Conflict, NotFound
from storage.records import MAX_COUNT, AlertState

router = page_router()

_ROWS: Final = 50
_MOST_NAME: Final = 200
_MOST_PROJECT: Final = 150  # characters of it in the name of a monitor, which has at most 200

STATES: Final[Mapping[str, str]] = {
    "": "all",
    "open": "open",
    "acknowledged": "acknowledged",
    "recovered": "recovered",
}


class AlertListing(BaseModel):
    """Query parameters of the list of alerts. `rule` is an id or a name."""

    model_config = ConfigDict(extra="ignore")

    state: Literal["", "open", "acknowledged", "recovered"] = ""
    project: str | None = None
    rule: str | None = None
    page: int = Field(default=0, ge=0, le=MAX_PAGE)

    @property
    def filter(self) -> AlertFilter:
        """Return the filter of the store for these parameters."""
        state: AlertState | None = self.state or None
        return AlertFilter(project=self.project or None, rule=self.rule or None, state=state)


@router.get("/alerts")
@needs(Permission.READ, by_tenant=True)
def list_alerts(
    request: Request, context: ContextDep, caller: CallerDep, listing: Annotated[AlertListing, Query()]
) -> Response:
    """List alerts by the time they were opened, newest first."""
    rows = context.store.alerts.newest(
        listing.filter, tenant=caller.visible_tenant, offset=listing.page * _ROWS, limit=_ROWS + 1
    )
    return page(
        request,
        "alerts.html",
        alerts=rows[:_ROWS],
        criteria={each.alert_id: _criteria(context, each.finding) for each in rows[:_ROWS]},
        query=listing,
        states=STATES,
        older=with_parameters(request, page=listing.page + 1) if len(rows) > _ROWS else None,
        newer=with_parameters(request, page=listing.page - 1 or None) if listing.page else None,
        watched=len(context.store.monitors.page(tenant=caller.visible_tenant, limit=1)),
    )


@router.get("/alerts/{alert_id}")
@needs(Permission.READ, by_tenant=True)
def show_alert(request: Request, alert_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show an alert with all that a person needs to check it."""
    alert = _alert(context, caller, alert_id)
    receivers = {
        each.webhook_id: each for each in context.receivers.all(caller.visible_tenant) if caller.owns(each.tenant)
    }
    deliveries = context.store.outbox.of_alert(alert_id, tenant=alert.finding.tenant)
    examples = _objects(alert.finding.document.get("examples"))
    return page(
        request,
        "alert.html",
        alert=alert,
        finding=alert.finding,
        examples=examples,
        questions=questions_of(context, [_text(each.get("traceId")) for each in examples], alert.finding.tenant),
        criteria=_criteria(context, alert.finding),
        comparison=_comparison_note(context, caller, alert.finding),
        reported=_rated(alert.finding.document.get("told")),
        sql=_text(alert.finding.document.get("sql")),
        settings={name: alert.finding.document.get(name) for name in ("alpha", "margin")},
        how="; ".join(filter(None, (end_rate(alert), end_text(alert)))),
        corrected=corrected_alert(context, alert.finding),
        deliveries=[each for each in deliveries if each.webhook_id in receivers or caller.sees_all],
        receivers=receivers,
        may_acknowledge=alert.state == "open" and may_use(caller, acknowledge_alert, "POST"),
        mutes=mutes_of(context, alert.finding),
        mute_hours=HOURS,
        may_mute=caller.owns(alert.finding.tenant) and may_use(caller, mute_alert, "POST"),
        may_resolve=alert.state != "recovered" and may_use(caller, resolve_alert, "POST"),
        compare=_comparison(alert.finding),
        quality=f"/quality?{_stream(alert.finding)}",
        whisker=whisker,
        evidence_bar=evidence_bar,
        short_print=short_print,
    )


@router.post("/alerts/{alert_id}/acknowledge")
@needs(Permission.WRITE, by_tenant=True)
def acknowledge_alert(alert_id: str, form: FormDep, context: ContextDep, caller: CallerDep) -> Response:
    """Acknowledge an alert in the name that the form gives, else in that of the key."""
    by = form.text("by").strip()[:_MOST_NAME] or caller.key_name or caller.key_id
    alert = _alert(context, caller, alert_id)
    refuse_shared(caller, alert.finding.tenant, f"the alert {alert_id}")
    context.store.alerts.acknowledge(alert_id, context.now_ns(), by=by, tenant=alert.finding.tenant)
    if alert.state == "recovered":
        raise Conflict("this alert has recovered; it cannot be acknowledged")
    return see_other(f"/alerts/{alert.alert_id}")


@router.post("/alerts/{alert_id}/resolve")
@needs(Permission.WRITE, by_tenant=True)
def resolve_alert(alert_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Resolve an alert in the name of the key."""
    alert = _alert(context, caller, alert_id)
    refuse_shared(caller, alert.finding.tenant, f"the alert {alert_id}")
    ended = {"how": "resolved", "by": caller.key_name or caller.key_id}
    if not context.store.alerts.recover(alert_id, ended, context.now_ns(), tenant=alert.finding.tenant):
        raise Conflict("this alert has already recovered")
    return see_other(f"/alerts/{alert.alert_id}")


def _alert(context: Context, caller: Caller, alert_id: str) -> Alert:
    alert = context.store.alerts.get(alert_id, tenant=caller.visible_tenant)
    if alert is None:
        raise NotFound(f"there is no alert {alert_id}")
    return alert


def _criteria(context: Context, finding: AlertFinding) -> str:
    if finding.metric is not None:
        return ""
    is_people = is_of_people(finding.fingerprint)
    return short_print(finding.fingerprint) if is_people else criteria_of_revision(context, finding.revision)


def _comparison_note(context: Context, caller: Caller, finding: AlertFinding) -> str | None:
    kept = next((each for each in context.rules.kept() if each.stored.rule_id == finding.rule_id), None)
    if kept is None or finding.metric:
        return None
    return comparisons_of(context, caller.visible_tenant, finding.rule_id)(kept.active)


def _stream(finding: AlertFinding, **more: str) -> str:
    params = {"rule": finding.rule_id, "project": finding.project or ""}
    params |= {"tenant": finding.tenant} if finding.tenant else {}
    return urlencode(params | ({"fingerprint": finding.fingerprint} if finding.fingerprint else {}) | more)


def _comparison(finding: AlertFinding) -> str | None:
    """Return the address of the page that compares the two releases; None if the alert is not about two releases."""
    before, after = finding.baseline.release, finding.candidate.release
    if finding.metric or finding.kind != "release" or before is None or after is None:
        return None
    # Several releases of a baseline are one text, and the latest of them comes last.
    sides = {"baseline": before.rpartition(", ")[2], "candidate": after}
    return f"/quality/compare?{_stream(finding, **_service_of(finding), **sides)}"


def _service_of(finding: AlertFinding) -> dict[str, str]:
    service = service_of(finding)
    return {"service": service} if service else {}


def _objects(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _rated(value: object) -> Sequence[Mapping[str, Any]]:
    return [each for each in _objects(value) if isinstance(each.get("rate"), int | float)]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


class MonitorSuggestion(BaseModel):
    """The metric to suggest a monitor of, with its project and limit; no metric: no suggestion."""

    model_config = ConfigDict(extra="ignore")

    metric: MetricName | None = None
    project: str = Field(default="", max_length=200)
    above: float = Field(default=0.05, ge=0, le=MAX_COUNT, allow_inf_nan=False)


@router.get("/metric-monitors")
@needs(Permission.READ, by_tenant=True)
def list_metric_monitors(
    request: Request, context: ContextDep, caller: CallerDep, query: Annotated[MonitorSuggestion, Query()]
) -> Response:
    """List metric monitors by tenant and name, with their state, and suggest the text of one."""
    rows = context.store.metric_monitors.all(tenant=caller.visible_tenant)
    monitors = [(row, text := text_of(row), metric_state_of(row), _scope(text), _limit(text)) for row in rows]
    return page(request, "metric_monitors.html", monitors=monitors, suggested=_suggested(query))


def _suggested(query: MonitorSuggestion) -> str:
    if query.metric is None:
        return ""
    fields: dict[str, str | float] = {
        "name": f"{query.project[:_MOST_PROJECT] or 'all projects'}: {query.metric}",
        "metric": query.metric,
    }
    fields |= {"project": query.project} if query.project else {}
    text = ", ".join(f"{key}: {json.dumps(value)}" for key, value in (fields | {"above": query.above}).items())
    return f"- {{{text}}}"


def _scope(text: MetricMonitorText) -> str:
    parts = [f"{scope} {value}" for scope in SCOPES if (value := getattr(text, scope)) is not None]
    return ", ".join(parts) or "everything"


def _limit(text: MetricMonitorText) -> str:
    if text.change is not None:
        return "a change"
    side = "above" if text.above is not None else "below"
    return f"{side} {metric_text(text.limit.number, text.of.unit)}"
