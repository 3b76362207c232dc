"""Mutes over HTTP: alerts that receivers are not told of for a while."""

import uuid
from http import HTTPStatus
from typing import Annotated

from fastapi.responses import JSONResponse, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from collector.access.permission import Permission, needs
from collector.api.access.tenants import Tenant, refuse_shared, tenant_of
from collector.api.answers.alerting import MuteDocument
from collector.api.answers.declared import answers
from collector.api.base.pages import PARTED, Part
from collector.api.base.problems import problem
from collector.api.base.routing import Here, Who, api_router
from collector.api.base.times import instant_ns, time_text, within_reach
from storage.alerting.alert_mutes import AlertMute

router = api_router(prefix="/api/v1/alert-mutes")


def _instant(text: str) -> str:
    instant_ns(text)
    return text


class MuteBody(BaseModel):
    """What nobody is to be told of, and until when."""

    model_config = ConfigDict(extra="forbid")

    until: Annotated[str, AfterValidator(_instant), Field(max_length=64, description="RFC 3339.")]
    project: str | None = Field(default=None, min_length=1, max_length=200)
    rule: str | None = Field(
        default=None, min_length=1, max_length=200, description="A name or an id, of a metric monitor too."
    )
    by: str | None = Field(default=None, min_length=1, max_length=200)


@router.get("", responses=PARTED)
@needs(Permission.READ, by_tenant=True)
@answers(list[MuteDocument])
def list_mutes(here: Here, who: Who, part: Part) -> list[dict[str, object]]:
    """The mutes that last, what ends first at the top."""
    return [mute_document(mute) for mute in part.of(here.alert_mutes.at(here.now_ns(), tenant=who.visible_tenant))]


@router.post("", status_code=HTTPStatus.CREATED)
@needs(Permission.WRITE, by_tenant=True)
@answers(MuteDocument)
def mute_alerts(body: MuteBody, here: Here, who: Who, tenant: Tenant = None) -> JSONResponse:
    """Tell no receiver of such alerts until then; alerts are opened all the same."""
    now_ns, until_ns = here.now_ns(), within_reach(instant_ns(body.until))
    if until_ns <= now_ns:
        return problem(HTTPStatus.BAD_REQUEST, "until: that is over")
    mute = AlertMute(
        tenant=tenant_of(who, tenant),
        mute_id=uuid.uuid4().hex,
        project=body.project,
        rule=body.rule,
        until_ns=until_ns,
        muted_by=body.by or who.key_name,
        created_at_ns=now_ns,
    )
    here.alert_mutes.add(mute)
    return JSONResponse(mute_document(mute), HTTPStatus.CREATED)


@router.delete("/{mute_id}", status_code=HTTPStatus.NO_CONTENT)
@needs(Permission.WRITE, by_tenant=True)
def delete_mute(mute_id: str, here: Here, who: Who) -> Response:
    """Tell of such alerts again."""
    found = here.alert_mutes.at(here.now_ns(), tenant=who.visible_tenant, mute_id=mute_id)
    if not found:
        return problem(HTTPStatus.NOT_FOUND, f"there is no mute {mute_id}, or it is over")
    refuse_shared(who, found[0].tenant, f"the mute {mute_id}")
    here.alert_mutes.delete(mute_id, here.now_ns())
    return Response(status_code=HTTPStatus.NO_CONTENT)


def mute_document(mute: AlertMute) -> dict[str, object]:
    """A mute."""
    return {
        "id": mute.mute_id,
        "tenant": mute.tenant,
        "projectName": mute.project,
        "rule": mute.rule,
        "until": time_text(mute.until_ns),
        "by": mute.muted_by,
        "createdAt": time_text(mute.created_at_ns),
    }
