"""Webhooks over HTTP: receivers of alerts, their deliveries, and manual retries. Secrets are written, never read."""

from http import HTTPStatus
from typing import Annotated, TypeAlias

from fastapi import Depends, HTTPException, Query, Response
from pydantic import ConfigDict, Field

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import own_webhooks
from collector.api.base.context import Context
from collector.api.base.json_encoding import json_response
from collector.api.base.pages import MAX_PAGE, PARTED, Part
from collector.api.base.problems import problem
from collector.api.base.routing import CallerDep, ContextDep, api_router
from collector.api.base.versions import GUARDED, TAGGED, TAGGED_NEW, IfMatch, created, seen, shown
from collector.api.responses.alerting import DeliveryDocument, DeliveryPage, WebhookDocument
from collector.api.responses.declaration import response_model
from collector.declared_fields import model_with
from collector.delivery.receivers import BadWebhook, FromFile, RequestedWebhook
from collector.path_names import path_segment
from collector.setting_groups import EVENTS, AlertEvent
from storage.alerting.webhook_options import WebhookOptions, webhook_options
from storage.alerting.webhooks import Webhook
from storage.records import DeliveryState

router = api_router(prefix="/api/v1")

_ROOT = "/projects/{project:name}/alert-webhooks"
_ONE = _ROOT + "/{webhook_id}"
_LONGEST_TEXT = 4096


class WebhookBody(model_with(WebhookOptions)):  # type: ignore[misc] # a base made at run time
    """A receiver of alerts. On PUT, an omitted `url` or `secret` stays unchanged."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    url: str | None = Field(default=None, max_length=_LONGEST_TEXT)
    secret: str | None = Field(default=None, max_length=_LONGEST_TEXT)
    events: list[AlertEvent] | None = Field(
        default=None,
        min_length=1,
        max_length=len(EVENTS),
        description="All, if omitted; with `rules`, `severities` or PagerDuty only the events of alerts.",
    )

    def requested(self) -> RequestedWebhook:
        """Return the requested receiver in the form that the server works with."""
        return RequestedWebhook(
            url=self.url,
            secret=self.secret,
            keeps_secret="secret" not in self.model_fields_set,
            events=None if self.events is None else tuple(dict.fromkeys(self.events)),
            **webhook_options(self),
        )


def _webhook(project: str, webhook_id: str, context: ContextDep, caller: CallerDep) -> Webhook:
    webhook = context.receivers.get(context.receivers.project(project, caller.visible_tenant), webhook_id)
    if webhook is None or not caller.owns(webhook.tenant):
        raise HTTPException(HTTPStatus.NOT_FOUND, f"project {project} has no webhook {webhook_id}")
    return webhook


Named: TypeAlias = Annotated[Webhook, Depends(_webhook)]


@router.get("/alert-webhooks", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[WebhookDocument])
def list_all(context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List the receivers of all projects, oldest first; a key with a tenant sees only its own."""
    return _documents(context.receivers.all(caller.visible_tenant), caller, part)


@router.get(_ROOT, responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@response_model(list[WebhookDocument])
def list_of_project(project: str, context: ContextDep, caller: CallerDep, part: Part) -> Response:
    """List the receivers of a project, oldest first."""
    return _documents(
        context.receivers.of_project(context.receivers.project(project, caller.visible_tenant), caller.visible_tenant),
        caller,
        part,
    )


@router.post(_ROOT, status_code=HTTPStatus.CREATED, responses=TAGGED_NEW)
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(WebhookDocument)
def create(project: str, body: WebhookBody, context: ContextDep, caller: CallerDep) -> Response:
    """Add a receiver."""
    try:
        webhook = context.receivers.create(
            context.receivers.project(project, caller.visible_tenant), body.requested(), tenant=caller.tenant
        )
    except BadWebhook as error:
        return _error(HTTPStatus.BAD_REQUEST, error)
    place = f"/api/v1/projects/{path_segment(project)}/alert-webhooks/{webhook.webhook_id}"
    return created(WebhookDocument.of(webhook), webhook.version, at=place)


@router.get(_ONE, responses=TAGGED)
@needs(Permission.READ, by_tenant=True)
@response_model(WebhookDocument)
def show(webhook: Named) -> Response:
    """Return a receiver."""
    return shown(WebhookDocument.of(webhook), webhook.version)


@router.put(_ONE, responses=TAGGED | GUARDED)
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(WebhookDocument)
def put(webhook: Named, body: WebhookBody, context: ContextDep, if_match: IfMatch = "") -> Response:
    """Replace a webhook under the same id."""
    try:
        replaced = context.receivers.replace(webhook, body.requested(), seen=seen(if_match))
    except BadWebhook as error:
        return _error(HTTPStatus.BAD_REQUEST, error)
    except FromFile as error:
        return _error(HTTPStatus.CONFLICT, error)
    return shown(WebhookDocument.of(replaced), replaced.version)


@router.delete(_ONE, status_code=HTTPStatus.NO_CONTENT, responses=GUARDED)
@needs(Permission.ADMINISTER, by_tenant=True)
def delete(webhook: Named, context: ContextDep, if_match: IfMatch = "") -> Response:
    """Delete a webhook; events that wait for it are not delivered."""
    try:
        context.receivers.delete(webhook, seen=seen(if_match))
    except FromFile as error:
        return _error(HTTPStatus.CONFLICT, error)
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post(_ONE + "/test", status_code=HTTPStatus.ACCEPTED)
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(DeliveryDocument)
def test(webhook: Named, context: ContextDep) -> Response:
    """Queue a test message, also for a disabled webhook."""
    return _queued(context, webhook, context.receivers.test(webhook) or "")


@router.get(_ONE + "/deliveries")
@needs(Permission.READ, by_tenant=True)
@response_model(DeliveryPage)
def deliveries(
    webhook: Named,
    context: ContextDep,
    state: DeliveryState | None = None,
    page: Annotated[int, Query(ge=0, le=MAX_PAGE)] = 0,
    size: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Response:
    """List past and pending deliveries, newest first."""
    rows = context.store.outbox.deliveries(webhook.webhook_id, state=state, offset=page * size, limit=size + 1)
    return json_response(DeliveryPage.page([DeliveryDocument.of(delivery) for delivery in rows], page, size))


@router.get(_ONE + "/deliveries/{delivery_id}")
@needs(Permission.READ, by_tenant=True)
@response_model(DeliveryDocument)
def delivery(webhook: Named, delivery_id: str, context: ContextDep) -> Response:
    """Return a delivery."""
    row = context.store.outbox.delivery(webhook.webhook_id, delivery_id)
    return _no_delivery(delivery_id) if row is None else json_response(DeliveryDocument.of(row))


@router.post(_ONE + "/deliveries/{delivery_id}/replay", status_code=HTTPStatus.ACCEPTED)
@needs(Permission.ADMINISTER, by_tenant=True)
@response_model(DeliveryDocument)
def replay(webhook: Named, delivery_id: str, context: ContextDep) -> Response:
    """Deliver an event again under the same id, from the first attempt; a delivery that still waits is unchanged."""
    if not webhook.enabled:
        return _error(HTTPStatus.CONFLICT, "the webhook is switched off; switch it on first")
    if context.store.outbox.delivery(webhook.webhook_id, delivery_id) is None:
        return _no_delivery(delivery_id)
    context.receivers.replay(webhook, delivery_id)
    return _queued(context, webhook, delivery_id)


def _documents(webhooks: list[Webhook], caller: Caller, part: Part) -> Response:
    return part.answer(own_webhooks(caller, webhooks), WebhookDocument.of)


def _queued(context: Context, webhook: Webhook, delivery_id: str) -> Response:
    row = context.store.outbox.delivery(webhook.webhook_id, delivery_id)
    if row is None:
        return _no_delivery(delivery_id)
    return json_response(DeliveryDocument.of(row), status=HTTPStatus.ACCEPTED)


def _no_delivery(delivery_id: str) -> Response:
    return _error(HTTPStatus.NOT_FOUND, f"no delivery {delivery_id} here")


def _error(status: HTTPStatus, error: object) -> Response:
    return problem(status, str(error))
