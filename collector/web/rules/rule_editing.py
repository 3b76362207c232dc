"""The editor of rules: as a form or as YAML, with a preview of the rule."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fastapi import Request
from fastapi.responses import Response

from collector.access.caller import Caller
from collector.access.permission import Permission, needs
from collector.api.base.context import Context
from collector.api.base.routing import CallerDep, ContextDep
from collector.live.rules.active_rules import LoadedRule
from collector.web.edit_conflict import EditConflict, overtaken, version_seen
from collector.web.rendering import page, see_other
from collector.web.rules import rule_access, rule_draft
from collector.web.rules.backfill_on_save import (
    NO_DAYS,
    BackfillOnSave,
    backfill_refusal,
    bounds_of,
    estimated,
    sent_days,
)
from collector.web.rules.rule_draft import DAY, WINDOWS, Asks, Preview, RuleFormDraft
from collector.web.rules.rule_form import (
    BLANK,
    GROUPS,
    MAX_ROWS,
    SAYS,
    ConditionRow,
    RuleForm,
    blank_form,
    condition_row,
    form_of,
)
from collector.web.rules.rule_settings import evaluators, literal_keys, may_ask, settings_of
from collector.web.spans.span_view import detail_of
from collector.web.visitor import Form, FormDep, page_router
from evaluators.chat.request_budget import ASSUMED_OUTPUT_TOKENS
from rules.condition_text import MAX_TEXT
from rules.errors import BadRule
from rules.fields import FIELDS, MAPS, TOTALS
from rules.operators import OPERATORS
from rules.rule import Rule
from rules.rule_yaml import has_comments
from storage.errors import Conflict, NotFound, Overloaded, Stale

router = page_router()

_FIRST: Final = "tool_error"
_OF_TYPE: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "llm": ("length", {"minimumOutputLength": "1", "maximumOutputLength": "4000"}),
    "agent": ("execution_metrics", {"maxToolCalls": "10"}),
}
"""The check that a form begins with, by the type of the span that it is made from, else `tool_error`. A guess."""

_NAME_CHARACTERS: Final = 80
_MORE_ROWS: Final = 4
_ASKING: Final[Mapping[str, Asks]] = {"judge": "judge", "prompt": "prompt"}
"""Buttons that make the preview call the judge, or render its prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RuleFormState:
    """State of the form's page besides the draft."""

    kept: LoadedRule | None  # None: a new rule
    window: str = DAY
    version: int = 0  # of the rule, when its form was first shown
    blank_rows: int = 1
    asks: Asks = ""  # call the judge for the examples, which costs, or only render its prompt
    looks: bool = False  # show the preview: not on opening, since over a million spans it takes seconds
    message: str = ""
    overtaken: EditConflict | None = None
    also: BackfillOnSave = NO_DAYS
    status: int = 200
    is_sent: bool = False  # shows all problems at once, else each when its field is left


@router.get("/rules/new")
@needs(Permission.WRITE, by_tenant=True)
def new_rule(request: Request, context: ContextDep, caller: CallerDep, project: str = "") -> Response:
    """Show the form of a new rule; `from=TRACE/SPAN` adds conditions that match that span."""
    like = request.query_params.get("from", "")
    form = _form_like(context, caller, like) if like else blank_form(project=project, evaluator=_FIRST)
    draft = rule_draft.draft_of_form(context, caller, form, None)
    if not like:  # an untouched form shows no problems
        draft = replace(draft, problems=())
    return _page(request, context, caller, draft, _RuleFormState(kept=None))


@router.post("/rules/new")
@needs(Permission.WRITE, by_tenant=True)
def create_rule(request: Request, form: FormDep, context: ContextDep, caller: CallerDep) -> Response:
    """Create the sent rule, or show its preview."""
    return _sent(request, context, caller, form, None)


@router.get("/rules/{rule_id}/edit")
@needs(Permission.WRITE, by_tenant=True)
def edit_rule(request: Request, rule_id: str, context: ContextDep, caller: CallerDep) -> Response:
    """Show a rule in its form; as YAML, if it has more conditions than the form."""
    kept = rule_access.find_changeable(context, caller, rule_id)
    rule = kept.active.rule
    if len(rule.conditions) <= MAX_ROWS:
        draft = rule_draft.draft_of_form(context, caller, _form(rule), kept)
    else:
        draft = rule_draft.draft_of_text(context, caller, kept.stored.text, kept)
    return _page(request, context, caller, draft, _RuleFormState(kept=kept, version=kept.stored.version))


@router.post("/rules/{rule_id}/edit")
@needs(Permission.WRITE, by_tenant=True)
def change_rule(request: Request, rule_id: str, form: FormDep, context: ContextDep, caller: CallerDep) -> Response:
    """Save the sent rule, or show its preview."""
    return _sent(request, context, caller, form, rule_access.find_changeable(context, caller, rule_id))


def _sent(request: Request, context: Context, caller: Caller, sent: Form, kept: LoadedRule | None) -> Response:
    do = sent.text("do", "preview")
    request.state.only_looked = do != "save" and _ASKING.get(do) != "judge"  # no audit entry: sent while typing
    draft = rule_draft.written(context, caller, sent, kept)
    shown = _RuleFormState(
        kept=kept,
        window=sent.text("window") if sent.text("window") in WINDOWS else DAY,
        version=version_seen(sent),
        blank_rows=_MORE_ROWS if do == "row" else 1,
        looks=True,
        asks=_ASKING.get(do, ""),
        also=sent_days(sent),
        is_sent=True,
    )
    if do == "save":
        saved = _saved(context, caller, draft, shown)
        if isinstance(saved, LoadedRule):
            place = "#backfills" if shown.also.days else ""
            return see_other(f"/rules/{saved.stored.rule_id}{place}")
        shown = saved
    if do == "as_text" and draft.text:
        draft = replace(draft, form=None, text=_own_text(draft, kept))
    if do == "as_form" and draft.form is None:
        if draft.rule is None:
            shown = replace(shown, message="Correct the errors first: the form shows valid rules only.")
        elif has_comments(draft.text) and (kept is None or draft.text != kept.stored.text):
            shown = replace(shown, message="The form does not keep comments: remove them, or edit as YAML.")
        elif len(draft.rule.conditions) > MAX_ROWS:
            shown = replace(shown, message=f"The form shows at most {MAX_ROWS} conditions; edit this rule as YAML.")
        else:
            draft = replace(draft, form=_form(draft.rule))
    return _page(request, context, caller, draft, shown)


def _saved(
    context: Context, caller: Caller, draft: RuleFormDraft, shown: _RuleFormState
) -> LoadedRule | _RuleFormState:
    """Save the draft; return the rule, or after a refusal the state of the page that explains it."""
    if draft.parsed is None or draft.rule is None or shown.also.problem:
        return replace(shown, status=400)
    problem = backfill_refusal(shown.also, draft)
    if problem:
        return replace(shown, also=replace(shown.also, problem=problem), status=400)
    saved = _put_in_force(context, caller, draft, shown)
    return _with_stored(context, saved, shown) if isinstance(saved, LoadedRule) and shown.also.days else saved


def _with_stored(context: Context, saved: LoadedRule, shown: _RuleFormState) -> LoadedRule | _RuleFormState:
    """Start the backfill of a saved rule."""
    try:
        rule_access.start_backfill(context, saved, *bounds_of(context, shown.also))
    except (Conflict, Overloaded) as error:
        message, status = f"The rule is saved, but the backfill did not start: {error}", 503
        if isinstance(error, Conflict):
            status = 409
        return replace(shown, kept=saved, version=saved.stored.version, message=message, status=status)
    return saved


def _put_in_force(
    context: Context, caller: Caller, draft: RuleFormDraft, shown: _RuleFormState
) -> LoadedRule | _RuleFormState:
    kept = shown.kept
    if draft.parsed is None or draft.rule is None:
        return replace(shown, status=400)
    try:
        if kept is None:
            return rule_access.create(context, caller, draft.parsed, draft.text)
        try:
            return rule_access.replace(context, kept, draft.parsed, draft.text, seen=shown.version)
        except Stale:
            now = rule_access.find_changeable(context, caller, kept.stored.rule_id)
            conflict = overtaken("rule", draft.rule.document(), now.active.rule.document())
            return replace(shown, kept=now, version=now.stored.version, overtaken=conflict, status=409)
    except (BadRule, Conflict) as error:
        return replace(shown, message=str(error), status=409)


def _own_text(draft: RuleFormDraft, kept: LoadedRule | None) -> str:
    if kept is None or draft.rule is None or draft.rule.document() != kept.active.rule.document():
        return draft.text
    return kept.stored.text


def _form(rule: Rule) -> RuleForm:
    return form_of(rule, literal_keys(rule.evaluator))


def _page(request: Request, context: Context, caller: Caller, draft: RuleFormDraft, shown: _RuleFormState) -> Response:
    form = draft.form
    settings = [] if form is None else list(settings_of(form.evaluator, form.settings))
    preview = _preview(context, caller, draft, shown) if shown.looks else None
    also = _also(context, caller, draft, shown, preview)
    return page(
        request,
        "rule_editor.html",
        status=shown.status,
        kept=shown.kept,
        version=shown.version,
        message=shown.message,
        overtaken=shown.overtaken,
        draft=draft,
        wrong=draft.wrong | ({"also_days": [also.problem]} if also.problem else {}),
        is_sent=shown.is_sent,
        also=also,
        rows=[] if form is None else [*form.rows, *[BLANK] * shown.blank_rows],
        settings=settings,
        kinds=evaluators(),
        may_ask=form is not None and may_ask(form.evaluator),
        fields=_field_names(context, caller),
        choices={name: each.choices for name, each in FIELDS.items() if each.choices},
        operators=OPERATORS,
        rules=sorted({each.stored.name for each in rule_access.all_rules(context, caller)}),
        says=list(SAYS),
        projects=rule_access.projects(context, caller),
        connections=_connections(context, caller, draft),
        window=shown.window,
        windows=WINDOWS,
        assumed_tokens=ASSUMED_OUTPUT_TOKENS,
        loses_comments=shown.kept is not None and has_comments(shown.kept.stored.text),
        preview=preview,
    )


def _field_names(context: Context, caller: Caller) -> list[str]:
    of_late = [f"attributes.{key}" for key in rule_access.attribute_keys(context, caller)]
    return [*FIELDS, *TOTALS, *MAPS, *GROUPS, *of_late]


def _also(
    context: Context, caller: Caller, draft: RuleFormDraft, shown: _RuleFormState, preview: Preview | None
) -> BackfillOnSave:
    whose = caller.tenant if shown.kept is None else shown.kept.stored.tenant
    return estimated(context, whose, shown.also, draft, preview)


def _preview(context: Context, caller: Caller, draft: RuleFormDraft, shown: _RuleFormState) -> Preview | None:
    return rule_draft.preview(context, caller, draft, float(shown.window), shown.kept, asks=shown.asks)


def _connections(context: Context, caller: Caller, draft: RuleFormDraft) -> list[str]:
    known = rule_access.connections(context, caller)
    chosen = "" if draft.form is None else draft.form.texts["connection"]
    return [*known, *([chosen] if chosen and chosen not in known else [])]


def _form_like(context: Context, caller: Caller, like: str) -> RuleForm:
    """Return a form with conditions that match the given span."""
    trace_id, _, span_id = like.partition("/")
    outline = context.store.outlines.of_trace(trace_id.strip().lower(), tenant=caller.visible_tenant, max_spans=1)
    whole = None if outline is None else context.store.outlines.span(outline, span_id.strip().lower())
    if outline is None or whole is None:
        raise NotFound(f"there is no span {like[:64]} here")
    span, read = whole.span, detail_of(whole, context.own_keys, outline.summary.start_ns).reading
    fields = {
        "service": span.service_name,
        "name": span.name,
        "span_type": read.span_type,
        "tool_name": read.tool_name,
        "model": read.model,
    }
    name_source = fields.get("tool_name") or span.name
    name = "".join(one if one.isprintable() else " " for one in name_source[:_NAME_CHARACTERS]).strip()
    kind, settings = _OF_TYPE.get(fields.get("span_type") or "", (_FIRST, {}))
    form = blank_form(name=name, project=span.project, evaluator=kind)
    return replace(form, rows=list(_rows(fields)), settings=settings)


def _rows(fields: Mapping[str, str | None]) -> Iterator[ConditionRow]:
    for field, value in fields.items():
        if value and len(value) <= MAX_TEXT and "\x00" not in value:
            yield condition_row(field, value)
