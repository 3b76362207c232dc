"""The playground page: models continue a conversation that was taken from a span or typed."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.access.tenants import visible_tenant_of
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.rules.playing import PlaygroundBody, PricedAnswer, StoredAnswer, played, priced, question_of
from collector.live.judges.playground import MOST_ANSWERS
from collector.live.judges.playground_trace import reply_message
from collector.web.playground.pictures import SentPictures, counted
from collector.web.playground.playground_form import (
    MOST_SHOWN,
    MessageField,
    PlaygroundForm,
    blank_form,
    body_of,
    form_of_span,
    sent_form,
)
from collector.web.rendering import page
from collector.web.spans.conversation import ShownMessage, conversation
from collector.web.spans.span_view import Detail, detail_of
from collector.web.visitor import FormDep, page_router, with_query
from evaluators.chat.dialogue import ROLES
from storage.errors import NotFound, Overloaded

router = page_router()

_DEFAULT: Final = "default"
_DIGITS: Final = 2
_NANO_DIGITS: Final = 9  # decimals of USD in the form


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPrice:
    """The most that all answers can cost, rounded up, as shown before they are requested."""

    calls: int
    tokens: int
    usd: float | None  # None: a model has no price

    @property
    def text(self) -> str:
        """Return the price as a hidden form field; the form sends it back to confirm it."""
        return f"{self.tokens}/{'' if self.usd is None else f'{self.usd:.9f}'}"

    def is_within(self, confirmed: str) -> bool:
        """Return True if the form confirmed at least this price."""
        tokens, _, usd = confirmed.partition("/")
        if not tokens.isdecimal() or self.tokens > int(tokens):
            return False
        if self.usd is None or not usd:
            return self.usd is None and not usd  # a price that is unknown now was not confirmed with an amount
        try:
            return self.usd <= float(usd)
        except ValueError:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One answer with its messages."""

    answer: StoredAnswer
    messages: Sequence[ShownMessage]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlaygroundFormState:
    """State of the page besides the form."""

    problems: Mapping[str, str] = field(default_factory=dict)
    answers: Sequence[PricedAnswer] = ()
    price: ShownPrice | None = None
    pictures: SentPictures | None = None
    columns: Sequence[Column] = ()
    message: str = ""
    status: int = 200


@router.get("/playground")
@needs(Permission.WRITE, by_tenant=True)
def show_playground(request: Request, context: ContextDep, caller: CallerDep, tenant: str = "") -> Response:
    """Show the form; `from=TRACE/SPAN` fills it with the request of that span."""
    like = request.query_params.get("from", "")
    if not like:
        return _page(request, context, caller, blank_form(_connection(context, caller, None)), _PlaygroundFormState())
    detail = _detail(context, caller, like, tenant)
    form = form_of_span(detail.span, detail.reading, _connection(context, caller, detail.reading.model), tenant)
    return _page(request, context, caller, form, _priced(context, caller, form))


@router.post("/playground")
@needs(Permission.WRITE, by_tenant=True)
async def ask_playground(request: Request, context: ContextDep, caller: CallerDep, sent: FormDep) -> Response:
    """Show the maximum price of the form's request, or call the models if that price is confirmed."""
    do, form = sent.text("do", "price"), sent_form(sent)
    request.state.only_looked = do != "send"  # no audit entry: the script submits the form while the user types
    form = _changed(form, do)
    shown = await asyncio.to_thread(_priced, context, caller, form)
    if do == "send" and shown.price is not None:
        if shown.price.is_within(sent.text("shownPrice")):
            shown = await _answered(context, caller, form, shown)
        else:
            shown = replace(
                shown, message="Nothing was sent yet, because it may cost more than the price you confirmed. See below."
            )
    elif do == "send":
        shown = replace(shown, status=400)
    return await asyncio.to_thread(_page, request, context, caller, form, shown)


def _changed(form: PlaygroundForm, do: str) -> PlaygroundForm:
    """Return the form with one more message, or without one."""
    action, _, at = do.partition(".")
    if action == "add" and len(form.messages) < MOST_SHOWN:
        return replace(form, messages=[*form.messages, MessageField(role="user", text="")])
    if action == "remove" and at.isdecimal():
        return replace(form, messages=[each for place, each in enumerate(form.messages) if place != int(at)])
    return form


def _priced(context: Context, caller: Caller, form: PlaygroundForm) -> _PlaygroundFormState:
    """Return the maximum price of the form's request, or the problems of the form."""
    body, problems = _body(context, caller, form)
    if body is None:
        return _PlaygroundFormState(problems=problems)
    pictures = counted(body.messages)
    try:
        answers = priced(context, question_of(caller, body), body)
    except NotFound as error:
        return _PlaygroundFormState(problems={"connection.0": str(error)}, pictures=pictures)
    return _PlaygroundFormState(answers=answers, price=_price(answers), pictures=pictures)


def _body(context: Context, caller: Caller, form: PlaygroundForm) -> tuple[PlaygroundBody | None, dict[str, str]]:
    origin = _recorded(context, caller, form)
    return body_of(form, [] if origin is None else origin.reading.input_messages or [])


def _price(answers: Sequence[PricedAnswer]) -> ShownPrice | None:
    terms = [each.terms for each in answers if each.terms is not None]
    if not terms:
        return None
    usd = [each.usd for each in terms]
    return ShownPrice(
        calls=len(terms),
        tokens=int(_up(sum(each.most.input_tokens + each.most.output_tokens for each in terms))),
        usd=None if None in usd else round(_up(sum(amount for amount in usd if amount is not None)), _NANO_DIGITS),
    )


def _up(amount: float) -> float:
    if amount <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(amount)) - _DIGITS + 1)
    return math.ceil(amount / step - 1e-9) * step


async def _answered(
    context: Context, caller: Caller, form: PlaygroundForm, shown: _PlaygroundFormState
) -> _PlaygroundFormState:
    body, _ = await asyncio.to_thread(_body, context, caller, form)
    if body is None:
        return shown
    try:
        answers = await played(context, caller, question_of(caller, body), shown.answers, body)
    except Overloaded as error:
        return replace(shown, message=f"No model was called: {error}. Try again later.", status=503)
    columns = []
    for each in answers:
        reply = None if each.response is None else each.response.reply
        columns.append(Column(answer=each, messages=[] if reply is None else conversation([reply_message(reply)])))
    return replace(shown, columns=columns)


def _page(
    request: Request, context: Context, caller: Caller, form: PlaygroundForm, shown: _PlaygroundFormState
) -> Response:
    origin = _recorded(context, caller, form)
    connections = context.judging.connections.for_rules_of(caller.tenant)
    return page(
        request,
        "playground.html",
        status=shown.status,
        form=form,
        shown=shown,
        roles=ROLES,
        most_shown=MOST_SHOWN,
        places=range(MOST_ANSWERS),
        connections=connections,
        names={each.connection_id: each.row.name for each in connections},
        origin=origin,
        back=_back(form),
    )


def _recorded(context: Context, caller: Caller, form: PlaygroundForm) -> Detail | None:
    """Return the span from which the form was filled, None if it is deleted or not visible to the caller."""
    if not form.origin:
        return None
    try:
        return _detail(context, caller, form.origin, form.tenant)
    except NotFound:
        return None


def _back(form: PlaygroundForm) -> str:
    trace_id, _, span_id = form.origin.partition("/")
    if not span_id:
        return "/traces"
    return with_query(f"/traces/{trace_id}", span=span_id, tenant=form.tenant or None)


def _detail(context: Context, caller: Caller, like: str, tenant: str) -> Detail:
    """Return a span that the caller may see."""
    trace_id, _, span_id = like.partition("/")
    visible_tenant = visible_tenant_of(caller, tenant or None)
    outline = context.store.outlines.of_trace(trace_id.strip().lower(), tenant=visible_tenant, max_spans=1)
    whole = None if outline is None else context.store.outlines.span(outline, span_id.strip().lower())
    if outline is None or whole is None:
        raise NotFound(f"there is no span {like[:64]} here")
    return detail_of(whole, context.own_keys, outline.summary.start_ns)


def _connection(context: Context, caller: Caller, model: str | None) -> str:
    known = context.judging.connections.for_rules_of(caller.tenant)
    alike = [each for each in known if each.text.model == model]
    named = [each for each in known if each.row.name == _DEFAULT]
    return next((each.connection_id for each in (*alike, *named, *known)), "")
