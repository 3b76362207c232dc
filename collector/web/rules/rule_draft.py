"""Drafts of rules, from the form or as YAML: their problems, and a preview."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from collector.access.caller import Caller
from collector.api.base.context import Context
from collector.evaluation.prompt_preview import PromptPreview
from collector.evaluation.rule_check import check_evaluator
from collector.evaluation.rule_trial import RuleTrial, TargetExample
from collector.live.active import ExecutorKind
from collector.live.jobs.trials import most_of
from collector.live.judges.judges import JudgeTerms
from collector.live.rules.active_rules import LoadedRule
from collector.live.rules.executor_kinds import executor_kind_of
from collector.web.rules import rule_access
from collector.web.rules.rule_form import RuleForm, places, sent_form, with_settings_of
from collector.web.rules.rule_settings import literal_keys, settings_of
from collector.web.visitor import Form
from evaluators.chat.connection import Price
from evaluators.chat.request_budget import Estimate
from evaluators.errors import BadConfiguration
from rules.errors import BadRule, Problem
from rules.rule import Rule
from rules.rule_text import RuleText, parse_rule
from rules.rule_yaml import yaml_of
from storage.errors import BadQuery, Overloaded
from storage.judging.job_results import JobResult
from storage.judging.rule_record import PastCost
from storage.records import JsonValue

Asks: TypeAlias = Literal["", "judge", "prompt"]
"""Use of the judge by a preview: none, call it for the examples, or render its prompt."""

EVALUATED: Final = 3
"""Number of examples that a preview evaluates."""

WINDOWS: Final[Mapping[str, str]] = {"3600": "the last hour", "86400": "the last day", "604800": "the last week"}
DAY: Final = "86400"

MOST_SPANS: Final = 100_000
"""Limit of the spans in a preview; the newest of the window are read."""

_NS: Final = 1_000_000_000
_LEAST_S: Final = 1.0
_DAY_S: Final = 86_400
_JUDGING_KEYS: Final = ("evaluator", "config", "tools", "expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFormDraft:
    """A rule while it is edited: its YAML, the form that generated it if any, and the parsed rule or its problems."""

    text: str
    form: RuleForm | None  # None: it is written as YAML
    problems: tuple[Problem, ...] = ()
    parsed: RuleText | None = None  # None: something is wrong
    rule: Rule | None = None

    @property
    def wrong(self) -> dict[str, list[str]]:
        """Return the problems by form field."""
        problems: dict[str, list[str]] = {}
        for place, message in () if self.form is None else places(self.problems, self.form):
            problems.setdefault(place, []).append(message)
        return problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The judges to call for examples, and the highest cost."""

    terms: Sequence[JudgeTerms] = ()  # several vote; none: no judge can be called, and `problem` says why
    usd: float | None = None  # None: a model has no price
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Usage of a judge for the examples, as budgets count it. `usd` is None for a model without a price."""

    calls: int
    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Preview of the effect of a rule."""

    trial: RuleTrial | None  # None: unknown, and `problem` says why
    executor_kind: ExecutorKind = "check"
    spans: int = 0  # that were read
    per_day: float = 0.0  # evaluations a day, extrapolated from the spans that were read
    is_cut: bool = False  # more spans than are read, so the window is shorter than requested
    cost: PastCost | None = None  # of one evaluation, if it calls a judge
    results: Sequence[tuple[TargetExample, JobResult | None]] = field(default_factory=list)
    offer: Offer | None = None  # if it calls a judge, and there are examples
    took: Took | None = None  # by the calls of this request
    prompt: PromptPreview | None = None  # for the first example, on request
    problem: str = ""


def written(context: Context, caller: Caller, sent: Form, kept: LoadedRule | None) -> RuleFormDraft:
    """Return the draft of a sent form: a change of `kept`, or a new rule."""
    if sent.text("as") == "text":
        return draft_of_text(context, caller, sent.text("text"), kept)
    form = sent_form(sent)
    if sent.text("shown") != form.evaluator:
        form = with_settings_of(form, frozenset(setting.key for setting in settings_of(form.evaluator, {})))
    return draft_of_form(context, caller, form, kept)


def draft_of_form(context: Context, caller: Caller, form: RuleForm, kept: LoadedRule | None) -> RuleFormDraft:
    """Return the draft that the fields of a form make, with all of its problems."""
    try:
        document = form.document(literal_keys(form.evaluator))
    except BadRule as error:
        return RuleFormDraft(text="", form=form, problems=error.problems)
    text = yaml_of(document)
    problems, parsed, rule = _checked(context, caller, text, kept)
    if parsed is None:
        # An evaluator is checked only if the rest of the rule is valid: check it alone, to show all problems.
        part: dict[str, JsonValue] = {
            "name": "this",
            **{key: document[key] for key in _JUDGING_KEYS if key in document},
        }
        problems = _without_twice([*problems, *_evaluator_problems(part)])
    return RuleFormDraft(text=text, form=form, problems=problems, parsed=parsed, rule=rule)


def draft_of_text(context: Context, caller: Caller, text: str, kept: LoadedRule | None) -> RuleFormDraft:
    """Return the draft of a rule text."""
    problems, parsed, rule = _checked(context, caller, text, kept)
    return RuleFormDraft(text=text, form=None, problems=problems, parsed=parsed, rule=rule)


def preview(
    context: Context, caller: Caller, draft: RuleFormDraft, window_s: float, kept: LoadedRule | None, *, asks: Asks = ""
) -> Preview | None:
    """Preview the matches, the cost and the results of checks on examples; None while the draft has problems.

    With `asks`, also call the judge for the examples, or render its prompt.
    """
    if draft.parsed is None or draft.rule is None:
        return None
    executor_kind, now_ns = executor_kind_of(draft.rule), context.now_ns()
    whose = caller.tenant if kept is None else kept.stored.tenant
    start_ns, spans = context.store.rule_record.start_of_newest(
        now_ns - int(window_s * _NS), MOST_SPANS, tenant=whose or None
    )
    shorter_s = window_s if start_ns is None else max((now_ns - start_ns) / _NS, _LEAST_S)
    is_cut = shorter_s < window_s
    try:
        trial = rule_access.try_out(context, whose, draft.parsed, draft.rule, min(shorter_s, window_s))
        examples = trial.examples[:EVALUATED]
        results: Sequence[JobResult | None] = context.trials.evaluate(draft.rule, examples) or [None] * len(examples)
    except (BadQuery, Overloaded) as error:
        return Preview(trial=None, problem=str(error))
    shown = Preview(
        trial=trial,
        executor_kind=executor_kind,
        spans=min(spans, MOST_SPANS),
        per_day=trial.evaluations * (spans / MOST_SPANS if is_cut else 1) * _DAY_S / window_s,
        is_cut=is_cut,
        results=list(zip(examples, results, strict=True)),
    )
    if executor_kind != "judge":
        return shown
    cost = context.store.rule_record.cost(draft.rule.evaluator, tenant=caller.visible_tenant)
    shown = replace(shown, cost=cost, offer=_offer(context, whose, kept, draft.rule, len(examples)))
    if asks == "prompt":
        return _with_prompt(context, shown)
    return _with_judge(context, whose, kept, shown) if asks == "judge" else shown


def _with_prompt(context: Context, shown: Preview) -> Preview:
    """Add the prompt for the first example to a preview."""
    if shown.trial is None or not shown.results:
        return shown
    try:
        return replace(shown, prompt=context.trials.preview(shown.trial.rule, shown.results[0][0]))
    except Overloaded as error:
        return replace(shown, prompt=PromptPreview(problem=str(error)))


def _offer(context: Context, whose: str, kept: LoadedRule | None, rule: Rule, examples: int) -> Offer | None:
    """Return the highest cost of calling the judge for this many examples."""
    if not examples:
        return None
    try:
        terms = context.trials.terms(whose, None if kept is None else kept.stored.rule_id, rule)
    except BadConfiguration as error:
        return Offer(problem=str(error))
    costs = [_usd(most_of(each.max_output_tokens), each.price) for each in terms]
    known = [each for each in costs if each is not None]
    return Offer(terms=terms, usd=examples * sum(known) if len(known) == len(costs) else None)


def _with_judge(context: Context, whose: str, kept: LoadedRule | None, shown: Preview) -> Preview:
    """Add the judge's results for the examples to a preview."""
    if shown.trial is None or shown.offer is None or not shown.offer.terms:
        return shown
    examples = [example for example, _ in shown.results]
    rule_id = None if kept is None else kept.stored.rule_id
    try:
        trial = context.trials.ask(whose, rule_id, shown.trial.rule, examples)
    except Overloaded as error:
        return replace(shown, offer=replace(shown.offer, problem=str(error)))
    tokens = trial.taken.input_tokens + trial.taken.output_tokens
    took = Took(calls=trial.calls, tokens=tokens, usd=trial.usd)
    return replace(shown, results=list(zip(examples, trial.results, strict=True)), took=took)


def _usd(tokens: Estimate, price: Price | None) -> float | None:
    return None if price is None else price.usd(tokens.input_tokens, tokens.output_tokens)


def _checked(
    context: Context, caller: Caller, text: str, kept: LoadedRule | None
) -> tuple[tuple[Problem, ...], RuleText | None, Rule | None]:
    try:
        parsed = parse_rule(text)
        about = parsed.rule.project if kept is None else kept.stored.project
        rule = rule_access.checked(context, caller, about, parsed)
    except BadRule as error:
        return tuple(error.problems), None, None
    return (), parsed, rule


def _evaluator_problems(part: Mapping[str, JsonValue]) -> Sequence[Problem]:
    try:
        check_evaluator(parse_rule(yaml_of(part)))
    except BadRule as error:
        return error.problems
    return ()


def _without_twice(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    by_saying = {(problem.key, problem.message): problem for problem in reversed(problems)}
    return tuple(sorted(by_saying.values(), key=lambda problem: problem.line))
