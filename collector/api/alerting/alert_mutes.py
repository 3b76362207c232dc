"""Mutes over HTTP: pauses of the notifications of some alerts."""

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from collector.api.base.context import Context
from collector.api.base.times import instant_ns, within_reach
from collector.api.kernel import Creation, Operation, Resource, router_of
from collector.api.responses.alerting import MuteDocument
from storage.alerting.alert_mutes import AlertMute
from storage.errors import BadQuery


def _instant(text: str) -> str:
    instant_ns(text)
    return text


class MuteBody(BaseModel):
    """Alerts to mute until a time: those of a project and a rule; None matches all."""

    model_config = ConfigDict(extra="forbid")

    until: Annotated[str, AfterValidator(_instant), Field(max_length=64, description="RFC 3339.")]
    project: str | None = Field(default=None, min_length=1, max_length=200)
    rule: str | None = Field(
        default=None, min_length=1, max_length=200, description="A name or an id, of a metric monitor too."
    )
    by: str | None = Field(default=None, min_length=1, max_length=200)


def _mute(context: Context, mute_id: str, body: MuteBody, new: Creation) -> AlertMute:
    now_ns, until_ns = context.now_ns(), within_reach(instant_ns(body.until))
    if until_ns <= now_ns:
        raise BadQuery("until: that is over")
    mute = AlertMute(
        tenant=new["tenant"],
        mute_id=mute_id,
        project=body.project,
        rule=body.rule,
        until_ns=until_ns,
        muted_by=body.by or new["by"],
        created_at_ns=now_ns,
    )
    context.store.alert_mutes.add(mute)
    return mute


MUTES: Final = Resource[AlertMute, MuteBody](
    module=__name__,
    path="/api/v1/alert-mutes",
    kind="mute",
    key="mute_id",
    longest_key=None,
    body=MuteBody,
    document=MuteDocument,
    find=lambda here, tenant, mute_id: here.store.alert_mutes.at(here.now_ns(), tenant=tenant, mute_id=mute_id),
    create=_mute,
    delete=lambda here, mute: here.store.alert_mutes.delete(mute.mute_id, here.now_ns()),
    show=lambda mute, _: MuteDocument.of(mute),
    title=lambda mute: mute.mute_id,
    missing="there is no {kind} {id}, or it has expired",
    listing=Operation("list_mutes", "List the mutes in effect, the first to expire first."),
    creating=Operation("mute_alerts", "Mute matching alerts until a time: they open, but notify no receiver."),
    deleting=Operation("delete_mute", "Delete a mute: matching alerts are delivered again."),
)

router = router_of(MUTES)
