"""Review queues on pages: their forms, and adding to them manually, from lists and from runs."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from fastapi import Query, Request
from fastapi.responses import Response
from markupsafe import Markup
from pydantic import ValidationError

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.api.review.review_queues import (
    MOST_FEEDS,
    QUEUES,
    EntriesBody,
    Own,
    QueueBody,
    entries_of_run,
    queue_target,
)
from collector.web.record_pages import BadForm, FormState, RecordPages, Values, router_of
from collector.web.rendering import page, see_other
from collector.web.text import one_line
from collector.web.visitor import Form, FormDep, by_field
from storage.errors import BadQuery, NotFound
from storage.records import number_in
from storage.review.review_queues import NewEntry, ReviewQueue

_ONE: Final = "/review/{queue_id}"
_FIELDS: Final = ("name", "question", "instructions", "answer", "low", "high", "labels", "reviewers")
_ROWS: Final = 6
"""Minimum number of rows in the form for feeds, the rules whose results enter the queue."""

_PERCENT: Final = 100

Named = Annotated[str, Query(max_length=10_000)]
Chosen = Annotated[Sequence[str], Query(max_length=200)]


def _values(form: Form) -> dict[str, str]:
    names = [*_FIELDS]
    names += [f"{name}-{row}" for row in range(MOST_FEEDS) for name in ("rule", "policy", "share", "margin", "against")]
    values = {name: form.text(name).strip() for name in names}
    return values | ({"blind": "on"} if form.checked("blind") else {})


def _unused(values: Values, stored: Values) -> dict[str, str]:
    """Return problems of fields that were filled in but have no effect because of another field."""
    changed = {name for name, text in values.items() if text and text != stored.get(name)}
    of_scores = set() if values["answer"] == "score" else {"low", "high"} & changed
    problems = dict.fromkeys(of_scores, "only for scores: choose “a score”, or leave it empty")
    for row in (row for row in range(MOST_FEEDS) if not values[f"rule-{row}"]):
        if {f"{name}-{row}" for name in ("share", "margin", "against")} & changed:
            problems[f"row {row + 1} of the rules"] = "choose a rule, or leave the row empty"
    return problems


def _fields(values: Values) -> dict[str, Any]:
    """Return the values as a request body of the API."""
    body: dict[str, Any] = {name: values[name] for name in ("name", "question", "instructions", "answer")}
    body |= {name: as_number(values[name]) for name in ("low", "high") if values[name]}
    body["answer"] = values["answer"] or "label"
    labels = [each.strip() for each in values["labels"].splitlines() if each.strip()]
    body |= {"labels": labels} if labels else {}
    body["reviewers"] = int(values["reviewers"]) if values["reviewers"].isdecimal() else values["reviewers"]
    body["blind"] = "blind" in values
    body["feeds"] = [_feed(values, row) for row in range(MOST_FEEDS) if values[f"rule-{row}"]]
    return body


def as_number(text: str) -> float | str | None:
    """Convert a field to a number; leave other text to the checks of the body, and return None for an empty field."""
    number = number_in(text)
    return text or None if number is None else number


def _feed(values: Values, row: int) -> dict[str, Any]:
    feed: dict[str, Any] = {"ruleId": values[f"rule-{row}"], "policy": values[f"policy-{row}"]}
    share = as_number(values[f"share-{row}"])
    feed |= {} if share is None else {"share": share / _PERCENT if isinstance(share, float) else share}
    feed |= {"margin": values[f"margin-{row}"]} if values[f"margin-{row}"] else {}
    return feed | ({"againstRuleId": values[f"against-{row}"]} if values[f"against-{row}"] else {})


def _values_of(queue: ReviewQueue) -> dict[str, str]:
    values = {
        "name": queue.name,
        "question": queue.question,
        "instructions": queue.instructions,
        "answer": queue.answer,
        "low": "" if queue.low is None else _text(queue.low),
        "high": "" if queue.high is None else _text(queue.high),
        "labels": "\n".join(queue.labels),
        "reviewers": str(queue.reviewers),
    }
    for row, feed in enumerate(json.loads(queue.feeds)):
        values |= {f"rule-{row}": feed["ruleId"], f"policy-{row}": feed["policy"]}
        values |= {f"share-{row}": _text(_PERCENT * feed["share"]), f"margin-{row}": _text(feed["margin"])}
        values |= {f"against-{row}": feed["againstRuleId"] or ""}
    return values | ({"blind": "on"} if queue.blind else {})


def _text(number: float) -> str:
    # 15 digits hide the rounding error of a percentage, so a form that is saved unchanged stores the same share.
    return f"{number:.15g}"


def _place(queue: ReviewQueue) -> str:
    return f"/review/{queue.queue_id}"


def _body(values: Values, stored: Values) -> QueueBody:
    if unused := _unused(values, stored):
        raise BadForm(unused)
    return QueueBody.model_validate(_fields(values))


def _form(request: Request, state: FormState[ReviewQueue], status: int) -> Response:
    tenant = request.state.caller.tenant if state.record is None else state.record.tenant
    filled = max((row for row in range(MOST_FEEDS) if state.values.get(f"rule-{row}")), default=-1) + 1
    kept = [each.stored for each in request.app.state.context.rules.kept() if each.stored.tenant in {tenant, ""}]
    return page(
        request,
        "review_queue_form.html",
        status=status,
        queue=state.record,
        values=state.values,
        problems={name: text for name, text in state.problems.items() if name in {*_FIELDS, ""}},
        others=[f"{name}: {text}" for name, text in state.problems.items() if name not in {*_FIELDS, ""}],
        rules=[("", "(none)"), *((each.rule_id, one_line(each.name)) for each in kept)],
        rows=range(min(max(_ROWS, filled + 1), MOST_FEEDS)),
        is_filled=filled > 0,
    )


_NEW: Final = {
    "labels": "CORRECT\nINCORRECT\nUNSURE",
    "question": "verdict",
    "answer": "label",
    "reviewers": "1",
    "blind": "on",
}

router = router_of(
    RecordPages[ReviewQueue, QueueBody](
        of=QUEUES,
        place="/review",
        noun="queue",
        begin=lambda _: _NEW,
        values=_values_of,
        typed=_values,
        body=_body,
        form=_form,
        created=_place,
        back=_place,
        deletion=Markup("<strong>{}</strong> is deleted with all that is in it. The votes stay."),
    )
)


@router.get("/review/add")
@needs(Permission.WRITE, by_tenant=True)
def ask_which_queue(
    request: Request, context: ContextDep, caller: CallerDep, run: Named = "", targets: Named = "", trace: Chosen = ()
) -> Response:
    """Ask which queue to add to: items of a run, named targets, or traces selected in a list."""
    named = [*targets.split(), *(each.partition(".")[0] for each in trace)]
    return page(request, "review_add_to.html", queues=_own(context, caller), run=run, targets=" ".join(named))


@router.get(_ONE + "/add")
@needs(Permission.WRITE, by_tenant=True)
def ask_what_to_add(request: Request, queue: Own, run: Named = "", targets: Named = "") -> Response:
    """Show the form that adds to a queue: items of a run, or named traces, spans and items."""
    return _adding(request, queue, {"run": run, "targets": targets, "share": "100"}, {})


@router.post(_ONE + "/add")
@needs(Permission.WRITE, by_tenant=True)
def add_to_queue(request: Request, queue: Own, context: ContextDep, caller: CallerDep, form: FormDep) -> Response:
    """Add entries to a queue; those that it already has are not added again."""
    values = {name: form.text(name).strip() for name in ("run", "targets", "share")}
    try:
        added = _added(context, caller, queue, values)
    except ValidationError as error:
        return _adding(request, queue, values, {"": "; ".join(by_field(error).values())}, status=400)
    except (BadQuery, ValueError) as error:
        return _adding(request, queue, values, {"": str(error)}, status=400)
    except NotFound as error:
        return _adding(request, queue, values, {"": str(error)}, status=404)
    return see_other(f"/review/{queue.queue_id}?added={added}")


def _added(context: Context, caller: Caller, queue: ReviewQueue, values: Values) -> int:
    """Add entries to a queue, and return how many."""
    if values["run"] and values["targets"]:
        raise ValueError("enter a run or targets, not both")
    if values["run"]:
        body = EntriesBody.model_validate({"runId": values["run"], "share": _share(values["share"])})
        entries = entries_of_run(context, queue, str(body.runId), body.share)
    else:
        named = [_named(each) for each in values["targets"].split()]
        body = EntriesBody.model_validate({"targets": named})
        entries = [NewEntry(about=queue_target(context, queue, each), reason="hand") for each in body.targets]
    return context.store.review_queues.add(queue, entries, by=caller.key_name, now_us=context.now_ns() // 1000)


def _named(text: str) -> dict[str, str]:
    if text.isdecimal() and len(text) < 20:  # noqa: PLR2004 - ids of traces have 32 digits
        return {"itemResultId": text}
    trace, _, span = text.partition("/")
    return {"traceId": trace} | ({"spanId": span} if span else {})


def _share(text: str) -> float:
    try:
        return float(text or _PERCENT) / _PERCENT
    except ValueError:
        raise ValueError("the percentage must be a number") from None


def _own(context: Context, caller: Caller) -> list[ReviewQueue]:
    visible = context.store.review_queues.find(caller.visible_tenant, now_us=context.now_ns() // 1000)
    return [each for each in visible if caller.owns(each.tenant)]


def _adding(
    request: Request, queue: ReviewQueue, values: Values, problems: Mapping[str, str], *, status: int = 200
) -> Response:
    return page(request, "review_add.html", status=status, values=values, problems=problems, queue=queue)
