"""Webhooks: receivers of alerts, their secrets, and their deliveries. No page shows a stored secret."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, Final, get_args

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import own_webhooks
from collector.api.alerting.webhooks import WebhookBody
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import CallerDep, ContextDep
from collector.delivery.receivers import EVERY_PROJECT, SECRET_URLS, BadWebhook, FromFile, RequestedWebhook
from collector.delivery.signing import new_secret
from collector.setting_groups import EVENTS
from collector.web.confirming import Confirmation, ask, attempt, show_once
from collector.web.declared_form import form_fields
from collector.web.edit_conflict import EditConflict, overtaken, version_seen, without_secret
from collector.web.navigation import may_use
from collector.web.rendering import page, see_other
from collector.web.text import one_line
from collector.web.visitor import Form, FormDep, by_field, page_router
from storage.alerting.webhook_options import Template, WebhookOptions, webhook_options
from storage.alerting.webhooks import Webhook
from storage.errors import Conflict, NotFound, Stale
from storage.records import DeliveryState

router = page_router()

_PAGE_ROWS = 50
_STATES: Final[tuple[DeliveryState, ...]] = get_args(DeliveryState)
_FORGET: Final = "removeSecret"
_FIELDS: Final = form_fields(WebhookOptions)
_FILTERS: Final = tuple(each for each in _FIELDS if each.name not in {"template", "enabled"})
_LABELS: Final = {"url": "URL", "secret": "Secret", "events": "Events"} | {each.name: each.label for each in _FIELDS}
_UNSIGNED: Final = "unsigned"  # the form's name for unsigned JSON
_OWN_SECRETS: Final[frozenset[Template]] = frozenset(
    {"pagerduty"}
)  # receivers that issue the secret; a generated one is useless


@dataclass(frozen=True, slots=True, kw_only=True)
class _WebhookFormState:
    """State of the form of a webhook, without its secret."""

    values: Mapping[str, Any]  # by field
    forgets: bool = False
    version: int = 0  # of the receiver, when its form was first shown
    problems: dict[str, str] = field(default_factory=dict)
    overtaken: EditConflict | None = None


@router.get("/webhooks")
@needs(Permission.READ, by_tenant=True)
def list_webhooks(request: Request, context: ContextDep, caller: CallerDep, project: str = "") -> Response:
    """List webhooks by project, oldest first, of every project or of one; keys with a tenant see only their own."""
    webhooks = _all(context, caller)
    return page(
        request,
        "webhooks.html",
        webhooks=[each for each in sorted(webhooks, key=_project_of) if project in {"", _project_of(each)}],
        projects=sorted({_project_of(each) for each in webhooks}),
        project=project,
        project_of=_project_of,
        may_edit=may_use(caller, create_webhook, "POST"),
    )


@router.get("/webhooks/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def new_webhook(request: Request, project: str = EVERY_PROJECT) -> Response:
    """Show the form of a new webhook."""
    values = _shown(WebhookOptions(), project=project, url="", events=EVENTS)
    return _form(request, None, _WebhookFormState(values=values))


@router.post("/webhooks/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def create_webhook(request: Request, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Add a webhook."""
    project = form.text("project").strip() or EVERY_PROJECT
    try:
        seen = context.receivers.project(project, caller.visible_tenant)
        created = context.receivers.create(seen, _wish(form, is_kept=False), tenant=caller.tenant)
    except (BadWebhook, ValidationError) as error:
        return _form(request, None, _sent(form, error), status=400)
    return see_other(f"/webhooks/{created.webhook_id}")


@router.get("/webhooks/{webhook_id}")
@needs(Permission.READ, by_tenant=True)
def show_webhook(
    request: Request,
    webhook_id: str,
    context: ContextDep,
    caller: CallerDep,
    state: str = "",
    number: Annotated[int, Query(alias="page", ge=0, le=MAX_PAGE)] = 0,
) -> Response:
    """Show a webhook and its deliveries."""
    webhook = _find(context, caller, webhook_id)
    chosen = next((each for each in _STATES if each == state), None)
    rows = context.store.outbox.deliveries(webhook_id, state=chosen, offset=number * _PAGE_ROWS, limit=_PAGE_ROWS + 1)
    return page(
        request,
        "webhook.html",
        webhook=webhook,
        filters=[(each.label, each.summary(_shown(webhook)[each.name])) for each in _FILTERS],
        project=_project_of(webhook),
        deliveries=rows[:_PAGE_ROWS],
        is_last=len(rows) <= _PAGE_ROWS,
        number=number,
        state=chosen or "",
        states=_STATES,
        may_send=may_use(caller, test_webhook, "POST"),
        may_edit=webhook.origin != "FILE" and may_use(caller, replace_webhook, "POST"),
    )


@router.get("/webhooks/{webhook_id}/edit")
@needs(Permission.ADMINISTER, by_tenant=True)
def edit_webhook(request: Request, webhook_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show the form of a webhook."""
    webhook = _find(context, caller, webhook_id)
    values = _shown(webhook, project=_project_of(webhook), url=webhook.url, events=webhook.events)
    if webhook.template == "json" and not webhook.has_secret:
        values["template"] = _UNSIGNED
    return _form(request, webhook, _WebhookFormState(values=values, version=webhook.version))


@router.post("/webhooks/{webhook_id}/edit")
@needs(Permission.ADMINISTER, by_tenant=True)
def replace_webhook(
    request: Request, webhook_id: str, context: ContextDep, caller: CallerDep, form: FormDep
) -> Response:
    """Replace a webhook by its form, if unchanged since the form was filled; an empty secret keeps the stored one."""
    webhook = _find(context, caller, webhook_id)
    try:
        _replace(context, webhook, _wish(form, is_kept=webhook.has_secret), seen=version_seen(form))
    except (BadWebhook, ValidationError) as error:
        return _form(request, webhook, _sent(form, error), status=400)
    except Stale:
        now = _find(context, caller, webhook_id)
        values = replace(_sent(form), version=now.version, overtaken=_overtaken(now, form))
        return _form(request, now, values, status=409)
    return see_other(f"/webhooks/{webhook_id}")


@router.post("/webhooks/{webhook_id}/switch")
@needs(Permission.ADMINISTER, by_tenant=True)
def switch_webhook(webhook_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Disable or enable a webhook; enabling one resets its count of failures."""
    webhook = _find(context, caller, webhook_id)
    requested = replace(_as_it_is(webhook), keeps_secret=True, enabled=form.required("enabled") == "true")
    try:
        _replace(context, webhook, requested, seen=webhook.version)
    except BadWebhook as error:
        raise Conflict(str(error)) from None
    return see_other(f"/webhooks/{webhook_id}")


@router.get("/webhooks/{webhook_id}/secret")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_for_secret(request: Request, webhook_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show the form of a new secret."""
    return _secret_form(request, _find(context, caller, webhook_id))


@router.post("/webhooks/{webhook_id}/secret")
@needs(Permission.ADMINISTER, by_tenant=True)
def rotate_secret(request: Request, webhook_id: str, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Rotate the secret: use the entered one, or generate one and show it once."""
    webhook, entered = _find(context, caller, webhook_id), form.text("secret")
    secret = entered or ("" if webhook.template in _OWN_SECRETS else new_secret())
    requested = replace(_as_it_is(webhook), secret=secret)
    try:
        _replace(context, webhook, requested, seen=webhook.version)
    except BadWebhook as error:
        return _secret_form(request, webhook, str(error).removeprefix("secret: "), status=400)
    place = f"/webhooks/{webhook_id}"
    if entered:
        return see_other(place)
    message = "Give it to the receiver; it is not shown again. The previous secret also signs until the rotation ends."
    return show_once(request, title="New secret", message=message, secret=secret, back=place)


@router.post("/webhooks/{webhook_id}/test")
@needs(Permission.ADMINISTER, by_tenant=True)
def test_webhook(webhook_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Send a webhook a test, enabled or not."""
    context.receivers.test(_find(context, caller, webhook_id))
    return see_other(f"/webhooks/{webhook_id}")


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/replay")
@needs(Permission.ADMINISTER, by_tenant=True)
def replay_delivery(webhook_id: str, delivery_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Repeat a delivery under the same id; a delivery that is still pending is left alone."""
    webhook = _find(context, caller, webhook_id)
    if not webhook.enabled:
        raise Conflict("the webhook is disabled; enable it first")
    if context.store.outbox.delivery(webhook_id, delivery_id) is None:
        raise NotFound(f"no delivery {delivery_id} here")
    context.receivers.replay(webhook, delivery_id)
    return see_other(f"/webhooks/{webhook_id}")


@router.get("/webhooks/{webhook_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_to_delete(request: Request, webhook_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Ask for confirmation."""
    return ask(request, _question(_find(context, caller, webhook_id)))


@router.post("/webhooks/{webhook_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_webhook(request: Request, webhook_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Delete a webhook; events that wait for it are not delivered."""
    webhook = _find(context, caller, webhook_id)
    return attempt(request, _question(webhook), partial(context.receivers.delete, webhook), then="/webhooks")


def _all(context: Context, caller: Caller) -> list[Webhook]:
    return own_webhooks(caller, context.receivers.all(caller.visible_tenant))


def _find(context: Context, caller: Caller, webhook_id: str) -> Webhook:
    for each in _all(context, caller):
        if each.webhook_id == webhook_id:
            return each
    raise NotFound(f"there is no webhook {webhook_id}")


def _replace(context: Context, webhook: Webhook, requested: RequestedWebhook, *, seen: int) -> None:
    try:
        context.receivers.replace(webhook, requested, seen={seen})
    except FromFile as error:
        raise Conflict(str(error)) from None


def _as_it_is(webhook: Webhook) -> RequestedWebhook:
    # Keeps all settings but the secret, which is removed unless the caller sets `secret` or `keeps_secret`.
    return RequestedWebhook(url=None, secret=None, events=webhook.events, **webhook_options(webhook))


def _project_of(webhook: Webhook) -> str:
    return EVERY_PROJECT if webhook.project is None else webhook.project


def _shown(options: WebhookOptions, **others: object) -> dict[str, Any]:
    stored = webhook_options(options).values()
    return others | {each.name: each.shown(value) for each, value in zip(_FIELDS, stored, strict=True)}


def _wish(form: Form, *, is_kept: bool) -> RequestedWebhook:
    """Return the fields of a form as the API takes them. An empty URL or secret keeps the stored one.

    Empty rules and severities mean all, and empty minutes no digest.
    """
    template = form.text("template", "json")
    if template == "json" and not (form.text("secret") or (is_kept and not form.checked(_FORGET))):
        raise BadWebhook("required for signed JSON: enter a secret, or choose unsigned JSON", field="secret")
    if template == _UNSIGNED and form.text("secret"):
        raise BadWebhook("not used by unsigned JSON: choose signed JSON, or leave it empty", field="secret")
    document: dict[str, object] = {
        "url": form.text("url").strip() or None,
        "events": list(form.texts("events")),
        **{each.name: each.meant(form) for each in _FIELDS},
        "template": "json" if template == _UNSIGNED else template,
    }
    if form.text("secret") and template != _UNSIGNED:
        document["secret"] = form.text("secret")
    elif form.checked(_FORGET) or template == _UNSIGNED:
        document["secret"] = None
    body: WebhookBody = WebhookBody.model_validate(document)
    return body.requested()


def _sent(form: Form, error: BadWebhook | ValidationError | None = None) -> _WebhookFormState:
    """Return the form as sent, with its problems by field."""
    return _WebhookFormState(
        values={
            "project": form.text("project"),
            "url": form.text("url"),
            "events": form.texts("events"),
            **{each.name: each.sent(form) for each in _FIELDS},
        },
        forgets=form.checked(_FORGET),
        version=version_seen(form),
        problems={} if error is None else by_field(error) if isinstance(error, ValidationError) else _problem(error),
    )


def _overtaken(now: Webhook, form: Form) -> EditConflict:
    """Return the differences between a webhook that was changed meanwhile and a form."""
    typed_secret, stored_secret = without_secret(form, "secret", _FORGET, is_kept=now.has_secret)
    requested, url = _wish(form, is_kept=now.has_secret), form.text("url").strip() or now.url
    if url != now.url and requested.template in SECRET_URLS:
        url = "a new URL"
    typed_fields = {"url": url, **_compared(requested)}
    return overtaken(
        "webhook", typed_fields | dict(typed_secret), {"url": now.url, **_compared(now)} | dict(stored_secret), _LABELS
    )


def _compared(source: RequestedWebhook | Webhook) -> dict[str, object]:
    # The fields that may be shown: no URL and no secret.
    return {
        to_camel(name): ", ".join(value) if isinstance(value, (list, tuple)) else value
        for name, value in ({"events": source.events} | webhook_options(source)).items()
    }


def _problem(error: BadWebhook) -> dict[str, str]:
    return {error.field: error.what}


def _form(request: Request, webhook: Webhook | None, values: _WebhookFormState, *, status: int = 200) -> Response:
    return page(
        request,
        "webhook_form.html",
        status=status,
        webhook=webhook,
        values=values,
        filters=_FILTERS,
        events=EVENTS,
        every=EVERY_PROJECT,
    )


def _secret_form(request: Request, webhook: Webhook, problem: str = "", *, status: int = 200) -> Response:
    makes_own = webhook.template not in _OWN_SECRETS
    return page(request, "webhook_secret.html", status=status, webhook=webhook, problem=problem, makes_own=makes_own)


def _question(webhook: Webhook) -> Confirmation:
    place = f"/webhooks/{webhook.webhook_id}"
    return Confirmation(
        title="Delete a webhook",
        message=Markup("Deliveries to {} stop, and its pending deliveries are cancelled.").format(
            one_line(webhook.url)
        ),
        action=f"{place}/delete",
        button="Delete the webhook",
        back=place,
    )
