"""Who is told of alerts: receivers, their secrets, and what was delivered. No page holds a secret that is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Final, get_args

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import ValidationError

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import own_webhooks
from collector.api.alerting.webhooks import WebhookBody
from collector.api.base.context import Context
from collector.api.base.pages import MAX_PAGE
from collector.api.base.routing import Here, Who
from collector.delivery.receivers import EVERY_PROJECT, SECRET_URLS, BadWebhook, FromFile, Wish
from collector.delivery.signing import new_secret
from collector.setting_groups import EVENTS
from collector.web.confirming import Confirmation, ask, attempt, show_once
from collector.web.navigation import may_use
from collector.web.overtaken import EditConflict, overtaken, version_seen, without_secret
from collector.web.rendering import page, see_other
from collector.web.text import one_line
from collector.web.visitor import Form, Sent, by_field, page_router
from storage.alerting.outbox import DeliveryState, Severity
from storage.alerting.webhooks import Template, Webhook
from storage.errors import Conflict, Missing, Stale

router = page_router()

_PAGE_ROWS = 50
_STATES: Final[tuple[DeliveryState, ...]] = get_args(DeliveryState)
_SEVERITIES: Final[tuple[Severity, ...]] = get_args(Severity)
_FORGET: Final = "removeSecret"
_LABELS: Final = {
    "url": "URL",
    "template": "Format",
    "secret": "Secret",
    "events": "Events",
    "rules": "Of rules and monitors",
    "severities": "Of severities",
    "digestMinutes": "Minutes between digests",
    "enabled": "Switched on",
}
_UNSIGNED: Final = "unsigned"  # what the form calls JSON that no secret signs
_OWN_SECRETS: Final[frozenset[Template]] = frozenset({"pagerduty"})  # which give theirs; a made one is of no use


@dataclass(frozen=True, slots=True, kw_only=True)
class _WebhookFormState:
    """What the form of a receiver holds; a secret never."""

    project: str = EVERY_PROJECT
    url: str = ""
    template: str = "json"
    events: Sequence[str] = EVENTS
    rules: str = ""  # a line each
    severities: Sequence[str] = ()
    digest_minutes: str = ""
    enabled: bool = True
    forgets: bool = False
    version: int = 0  # of the receiver, when its form was first shown
    problems: dict[str, str] = field(default_factory=dict)
    overtaken: EditConflict | None = None


@router.get("/webhooks")
@needs(Permission.READ, by_tenant=True)
def list_webhooks(request: Request, here: Here, who: Who, project: str = "") -> Response:
    """The webhooks of every project or of one, by project, oldest first; a key with a tenant sees its own alone."""
    found = _all(here, who)
    return page(
        request,
        "webhooks.html",
        webhooks=[each for each in sorted(found, key=_project_of) if project in {"", _project_of(each)}],
        projects=sorted({_project_of(each) for each in found}),
        project=project,
        project_of=_project_of,
        may_edit=may_use(who, create_webhook, "POST"),
    )


@router.get("/webhooks/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def new_webhook(request: Request, project: str = EVERY_PROJECT) -> Response:
    """The form of one that is not there yet."""
    return _form(request, None, _WebhookFormState(project=project))


@router.post("/webhooks/new")
@needs(Permission.ADMINISTER, by_tenant=True)
def create_webhook(request: Request, here: Here, who: Who, form: Sent) -> Response:
    """Add one."""
    project = form.text("project").strip() or EVERY_PROJECT
    try:
        seen = here.receivers.project(project, who.visible_tenant)
        created = here.receivers.create(seen, _wish(form, is_kept=False), tenant=who.tenant)
    except (BadWebhook, ValidationError) as error:
        return _form(request, None, _sent(form, error), status=400)
    return see_other(f"/webhooks/{created.webhook_id}")


@router.get("/webhooks/{webhook_id}")
@needs(Permission.READ, by_tenant=True)
def show_webhook(
    request: Request,
    webhook_id: str,
    here: Here,
    who: Who,
    state: str = "",
    number: Annotated[int, Query(alias="page", ge=0, le=MAX_PAGE)] = 0,
) -> Response:
    """One webhook, and what it was told or is to be told."""
    webhook = _find(here, who, webhook_id)
    wanted = next((each for each in _STATES if each == state), None)
    found = here.outbox.deliveries(webhook_id, state=wanted, offset=number * _PAGE_ROWS, limit=_PAGE_ROWS + 1)
    return page(
        request,
        "webhook.html",
        webhook=webhook,
        project=_project_of(webhook),
        deliveries=found[:_PAGE_ROWS],
        is_last=len(found) <= _PAGE_ROWS,
        number=number,
        state=wanted or "",
        states=_STATES,
        may_send=may_use(who, test_webhook, "POST"),
        may_edit=webhook.origin != "FILE" and may_use(who, replace_webhook, "POST"),
    )


@router.get("/webhooks/{webhook_id}/edit")
@needs(Permission.ADMINISTER, by_tenant=True)
def edit_webhook(request: Request, webhook_id: str, here: Here, who: Who) -> Response:
    """Its form."""
    found = _find(here, who, webhook_id)
    values = _WebhookFormState(
        project=_project_of(found),
        url=found.url,
        template=_UNSIGNED if found.template == "json" and not found.has_secret else found.template,
        events=found.events,
        rules="\n".join(found.rules or ()),
        severities=found.severities or (),
        digest_minutes=_number(found.digest_minutes),
        enabled=found.enabled,
        version=found.version,
    )
    return _form(request, found, values)


@router.post("/webhooks/{webhook_id}/edit")
@needs(Permission.ADMINISTER, by_tenant=True)
def replace_webhook(request: Request, webhook_id: str, here: Here, who: Who, form: Sent) -> Response:
    """Make it what the form says, if it is still as the form was filled; a secret that is left empty stays."""
    webhook = _find(here, who, webhook_id)
    try:
        _replace(here, webhook, _wish(form, is_kept=webhook.has_secret), seen=version_seen(form))
    except (BadWebhook, ValidationError) as error:
        return _form(request, webhook, _sent(form, error), status=400)
    except Stale:
        now = _find(here, who, webhook_id)
        values = replace(_sent(form), version=now.version, overtaken=_overtaken(now, form))
        return _form(request, now, values, status=409)
    return see_other(f"/webhooks/{webhook_id}")


@router.post("/webhooks/{webhook_id}/switch")
@needs(Permission.ADMINISTER, by_tenant=True)
def switch_webhook(webhook_id: str, here: Here, who: Who, form: Sent) -> Response:
    """Switch it on, which begins anew where we had switched it off, or off."""
    webhook = _find(here, who, webhook_id)
    wish = replace(_as_it_is(webhook), keeps_secret=True, enabled=form.required("enabled") == "true")
    try:
        _replace(here, webhook, wish, seen=webhook.version)
    except BadWebhook as error:
        raise Conflict(str(error)) from None
    return see_other(f"/webhooks/{webhook_id}")


@router.get("/webhooks/{webhook_id}/secret")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_for_secret(request: Request, webhook_id: str, here: Here, who: Who) -> Response:
    """The form of a new secret."""
    return _secret_form(request, _find(here, who, webhook_id))


@router.post("/webhooks/{webhook_id}/secret")
@needs(Permission.ADMINISTER, by_tenant=True)
def rotate_secret(request: Request, webhook_id: str, here: Here, who: Who, form: Sent) -> Response:
    """Sign with another secret from now on: the one that is given, or one that is made here and shown this once."""
    webhook, given = _find(here, who, webhook_id), form.text("secret")
    secret = given or ("" if webhook.template in _OWN_SECRETS else new_secret())
    wish = replace(_as_it_is(webhook), secret=secret)
    try:
        _replace(here, webhook, wish, seen=webhook.version)
    except BadWebhook as error:
        return _secret_form(request, webhook, str(error).removeprefix("secret: "), status=400)
    place = f"/webhooks/{webhook_id}"
    if given:
        return see_other(place)
    told = "Give it to the receiver. It is shown this once; the one before signs too until the rotation is over."
    return show_once(request, title="A new secret", told=told, secret=secret, back=place)


@router.post("/webhooks/{webhook_id}/test")
@needs(Permission.ADMINISTER, by_tenant=True)
def test_webhook(webhook_id: str, here: Here, who: Who) -> Response:
    """Send it a test, switched on or not."""
    here.receivers.test(_find(here, who, webhook_id))
    return see_other(f"/webhooks/{webhook_id}")


@router.post("/webhooks/{webhook_id}/deliveries/{delivery_id}/replay")
@needs(Permission.ADMINISTER, by_tenant=True)
def replay_delivery(webhook_id: str, delivery_id: str, here: Here, who: Who) -> Response:
    """Deliver it again under the same id; one that waits anyway is left alone."""
    webhook = _find(here, who, webhook_id)
    if not webhook.enabled:
        raise Conflict("the webhook is switched off; switch it on first")
    if here.outbox.delivery(webhook_id, delivery_id) is None:
        raise Missing(f"no delivery {delivery_id} here")
    here.receivers.replay(webhook, delivery_id)
    return see_other(f"/webhooks/{webhook_id}")


@router.get("/webhooks/{webhook_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def ask_to_delete(request: Request, webhook_id: str, here: Here, who: Who) -> Response:
    """Whether it is really to go."""
    return ask(request, _question(_find(here, who, webhook_id)))


@router.post("/webhooks/{webhook_id}/delete")
@needs(Permission.ADMINISTER, by_tenant=True)
def delete_webhook(request: Request, webhook_id: str, here: Here, who: Who) -> Response:
    """Take it away; what waits for it is not delivered."""
    webhook = _find(here, who, webhook_id)
    return attempt(request, _question(webhook), partial(here.receivers.delete, webhook), then="/webhooks")


def _all(here: Context, who: Caller) -> list[Webhook]:
    """The webhooks of the caller."""
    return own_webhooks(who, here.receivers.all(who.visible_tenant))


def _find(here: Context, who: Caller, webhook_id: str) -> Webhook:
    """The one with this id.

    Raises:
        Missing: there is none that is the caller's.
    """
    for each in _all(here, who):
        if each.webhook_id == webhook_id:
            return each
    raise Missing(f"there is no webhook {webhook_id}")


def _replace(here: Context, webhook: Webhook, wish: Wish, *, seen: int) -> None:
    """Make a receiver of which this version was seen what is wished for.

    Raises:
        Stale: it has another version.
        BadWebhook: it cannot be that.
        Conflict: it is that of the configuration.
    """
    try:
        here.receivers.replace(webhook, wish, seen={seen})
    except FromFile as error:
        raise Conflict(str(error)) from None


def _as_it_is(webhook: Webhook) -> Wish:
    """What a receiver is, without its secret."""
    return Wish(
        url=None,
        secret=None,
        enabled=webhook.enabled,
        events=webhook.events,
        template=webhook.template,
        rules=webhook.rules,
        severities=webhook.severities,
        digest_minutes=webhook.digest_minutes,
    )


def _project_of(webhook: Webhook) -> str:
    return EVERY_PROJECT if webhook.project is None else webhook.project


def _wish(form: Form, *, is_kept: bool) -> Wish:
    """What a form says, as the API takes it; one that is left empty is not mentioned, so that it stays.

    Raises:
        ValidationError: that is none.
        BadWebhook: it is to be signed, with nothing to sign it.
    """
    template = form.text("template", "json")
    if template == "json" and not (form.text("secret") or (is_kept and not form.checked(_FORGET))):
        raise BadWebhook("is needed to sign: give one, or choose JSON that is not signed", field="secret")
    if template == _UNSIGNED and form.text("secret"):
        raise BadWebhook("signs nothing here: choose JSON that is signed, or leave it empty", field="secret")
    document: dict[str, object] = {
        "url": form.text("url").strip() or None,
        "enabled": form.checked("enabled"),
        "events": list(form.texts("events")),
        "template": "json" if template == _UNSIGNED else template,
        "rules": [line.strip() for line in form.text("rules").splitlines() if line.strip()] or None,
        "severities": list(form.texts("severities")) or None,
        "digestMinutes": form.text("digestMinutes").strip() or None,
    }
    if form.text("secret") and template != _UNSIGNED:
        document["secret"] = form.text("secret")
    elif form.checked(_FORGET) or template == _UNSIGNED:
        document["secret"] = None
    return WebhookBody.model_validate(document).wish()


def _sent(form: Form, error: BadWebhook | ValidationError | None = None) -> _WebhookFormState:
    """The form as it was sent, with what is wrong beside its field."""
    return _WebhookFormState(
        project=form.text("project"),
        url=form.text("url"),
        template=form.text("template"),
        events=form.texts("events"),
        rules=form.text("rules"),
        severities=form.texts("severities"),
        digest_minutes=form.text("digestMinutes"),
        enabled=form.checked("enabled"),
        forgets=form.checked(_FORGET),
        version=version_seen(form),
        problems={} if error is None else by_field(error) if isinstance(error, ValidationError) else _problem(error),
    )


def _overtaken(now: Webhook, form: Form) -> EditConflict:
    """How a receiver that was changed meanwhile differs from what a form says."""
    typed, there = without_secret(form, "secret", _FORGET, is_kept=now.has_secret)
    wish, url = _wish(form, is_kept=now.has_secret), form.text("url").strip() or now.url
    if url != now.url and wish.template in SECRET_URLS:
        url = "a new one"
    wanted = {"url": url, **_compared(wish)}
    return overtaken("webhook", wanted | dict(typed), {"url": now.url, **_compared(now)} | dict(there), _LABELS)


def _compared(told: Wish | Webhook) -> dict[str, object]:
    """What a form and a receiver say, by field, but for the address and what is secret."""
    return {
        "template": told.template,
        "events": ", ".join(told.events or ()),
        "rules": ", ".join(told.rules or ()),
        "severities": ", ".join(told.severities or ()),
        "digestMinutes": _number(told.digest_minutes),
        "enabled": told.enabled,
    }


def _number(number: int | None) -> str:
    return "" if number is None else str(number)


def _problem(error: BadWebhook) -> dict[str, str]:
    """What is wrong, by the field that it is about."""
    return {error.field: error.what}


def _form(request: Request, webhook: Webhook | None, values: _WebhookFormState, *, status: int = 200) -> Response:
    return page(
        request,
        "webhook_form.html",
        status=status,
        webhook=webhook,
        values=values,
        events=EVENTS,
        severities=_SEVERITIES,
        every=EVERY_PROJECT,
    )


def _secret_form(request: Request, webhook: Webhook, problem: str = "", *, status: int = 200) -> Response:
    makes_own = webhook.template not in _OWN_SECRETS
    return page(request, "webhook_secret.html", status=status, webhook=webhook, problem=problem, makes_own=makes_own)


def _question(webhook: Webhook) -> Confirmation:
    place = f"/webhooks/{webhook.webhook_id}"
    return Confirmation(
        title="Delete a webhook",
        told=Markup("Nothing more is sent to {}, and its pending deliveries are cancelled.").format(
            one_line(webhook.url)
        ),
        action=f"{place}/delete",
        button="Delete the webhook",
        back=place,
    )
