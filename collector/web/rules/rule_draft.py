"""A rule that somebody writes: as a form or as YAML, what is wrong with it, and what it would do."""

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
from collector.live.rules.executor_kinds import executor_kind_of
from collector.live.rules.rules_in_force import KeptRule
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
"""What somebody wants to know of the judge: nothing, what it says of examples, or what it would be asked."""

EVALUATED: Final = 3
"""Examples that are evaluated on the spot."""

WINDOWS: Final[Mapping[str, str]] = {"3600": "the last hour", "86400": "the last day", "604800": "the last week"}
DAY: Final = "86400"

MOST_SPANS: Final = 100_000
"""Of a window with more spans, the newest are looked at."""

_NS: Final = 1_000_000_000
_LEAST_S: Final = 1.0
_DAY_S: Final = 86_400
_JUDGING_KEYS: Final = ("evaluator", "config", "tools", "expected")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFormDraft:
    """What somebody wrote; of a form also the text that it makes."""

    text: str
    form: RuleForm | None  # None: it is written as YAML
    problems: tuple[Problem, ...] = ()
    parsed: RuleText | None = None  # None: something is wrong
    rule: Rule | None = None

    @property
    def wrong(self) -> dict[str, list[str]]:
        """What is wrong, by the field that it is told beside."""
        told: dict[str, list[str]] = {}
        for place, message in () if self.form is None else places(self.problems, self.form):
            told.setdefault(place, []).append(message)
        return told


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """The judges who may be asked about examples, and what that costs at most."""

    terms: Sequence[JudgeTerms] = ()  # of several, they vote; none: they cannot be asked, and `problem` says why
    usd: float | None = None  # None: a model has no price
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """What asking a judge about examples took, as budgets count it. `usd` is None where the model has no price."""

    calls: int
    tokens: int
    usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a rule would do."""

    trial: RuleTrial | None  # None: it cannot be told, and `problem` says why
    executor_kind: ExecutorKind = "check"
    spans: int = 0  # that were looked at
    per_day: float = 0.0  # evaluations, as if what was looked at were like all of the window
    is_cut: bool = False  # there are more spans than are looked at, so the window is shorter than was asked for
    cost: PastCost | None = None  # of one evaluation, where it asks a judge
    results: Sequence[tuple[TargetExample, JobResult | None]] = field(default_factory=list)
    offer: Offer | None = None  # where it asks a judge, and there are examples
    took: Took | None = None  # what the judge was asked just now
    prompt: PromptPreview | None = None  # what it would be asked about the first example, where somebody wants to know
    problem: str = ""


def written(here: Context, who: Caller, sent: Form, kept: KeptRule | None) -> RuleFormDraft:
    """The rule that somebody sent, to be what `kept` says from now on, or a new one."""
    if sent.text("as") == "text":
        return draft_of_text(here, who, sent.text("text"), kept)
    form = sent_form(sent)
    if sent.text("shown") != form.evaluator:
        form = with_settings_of(form, frozenset(setting.key for setting in settings_of(form.evaluator, {})))
    return draft_of_form(here, who, form, kept)


def draft_of_form(here: Context, who: Caller, form: RuleForm, kept: KeptRule | None) -> RuleFormDraft:
    """What the fields of a form say, with all that is wrong with it."""
    try:
        document = form.document(literal_keys(form.evaluator))
    except BadRule as error:
        return RuleFormDraft(text="", form=form, problems=error.problems)
    text = yaml_of(document)
    problems, parsed, rule = _checked(here, who, text, kept)
    if parsed is None:
        # What is wrong with the evaluator is told only once the rest is right, unless it is asked by itself.
        part: dict[str, JsonValue] = {
            "name": "this",
            **{key: document[key] for key in _JUDGING_KEYS if key in document},
        }
        problems = _without_twice([*problems, *_evaluator_problems(part)])
    return RuleFormDraft(text=text, form=form, problems=problems, parsed=parsed, rule=rule)


def draft_of_text(here: Context, who: Caller, text: str, kept: KeptRule | None) -> RuleFormDraft:
    """What a text says."""
    problems, parsed, rule = _checked(here, who, text, kept)
    return RuleFormDraft(text=text, form=None, problems=problems, parsed=parsed, rule=rule)


def preview(
    here: Context, who: Caller, draft: RuleFormDraft, window_s: float, kept: KeptRule | None, *, asks: Asks = ""
) -> Preview | None:
    """What it would match, what that would cost, and what a check says of examples; None while something is wrong.

    A judge is asked about them if `asks` says so, or told what it would be asked.
    """
    if draft.parsed is None or draft.rule is None:
        return None
    executor_kind, now_ns = executor_kind_of(draft.rule), here.now_ns()
    whose = who.tenant if kept is None else kept.stored.tenant
    start_ns, spans = here.rule_record.start_of_newest(now_ns - int(window_s * _NS), MOST_SPANS, tenant=whose or None)
    shorter_s = window_s if start_ns is None else max((now_ns - start_ns) / _NS, _LEAST_S)
    is_cut = shorter_s < window_s
    try:
        trial = rule_access.try_out(here, whose, draft.parsed, draft.rule, min(shorter_s, window_s))
        examples = trial.examples[:EVALUATED]
        results: Sequence[JobResult | None] = here.trials.evaluate(draft.rule, examples) or [None] * len(examples)
    except (BadQuery, Overloaded) as error:
        return Preview(trial=None, problem=str(error))
    told = Preview(
        trial=trial,
        executor_kind=executor_kind,
        spans=min(spans, MOST_SPANS),
        per_day=trial.evaluations * (spans / MOST_SPANS if is_cut else 1) * _DAY_S / window_s,
        is_cut=is_cut,
        results=list(zip(examples, results, strict=True)),
    )
    if executor_kind != "judge":
        return told
    cost = here.rule_record.cost(draft.rule.evaluator, tenant=who.visible_tenant)
    told = replace(told, cost=cost, offer=_offer(here, whose, kept, draft.rule, len(examples)))
    if asks == "prompt":
        return _with_prompt(here, told)
    return _with_judge(here, whose, kept, told) if asks == "judge" else told


def _with_prompt(here: Context, told: Preview) -> Preview:
    """The preview with the first question about the first example."""
    if told.trial is None or not told.results:
        return told
    try:
        return replace(told, prompt=here.trials.preview(told.trial.rule, told.results[0][0]))
    except Overloaded as error:
        return replace(told, prompt=PromptPreview(problem=str(error)))


def _offer(here: Context, whose: str, kept: KeptRule | None, rule: Rule, examples: int) -> Offer | None:
    """What asking the judge about so many examples would cost at most."""
    if not examples:
        return None
    try:
        terms = here.trials.terms(whose, None if kept is None else kept.stored.rule_id, rule)
    except BadConfiguration as error:
        return Offer(problem=str(error))
    costs = [_usd(most_of(each.max_output_tokens), each.price) for each in terms]
    known = [each for each in costs if each is not None]
    return Offer(terms=terms, usd=examples * sum(known) if len(known) == len(costs) else None)


def _with_judge(here: Context, whose: str, kept: KeptRule | None, told: Preview) -> Preview:
    """The preview with what the judge says of the examples."""
    if told.trial is None or told.offer is None or not told.offer.terms:
        return told
    examples = [example for example, _ in told.results]
    rule_id = None if kept is None else kept.stored.rule_id
    try:
        found = here.trials.ask(whose, rule_id, told.trial.rule, examples)
    except Overloaded as error:
        return replace(told, offer=replace(told.offer, problem=str(error)))
    tokens = found.taken.input_tokens + found.taken.output_tokens
    took = Took(calls=found.calls, tokens=tokens, usd=found.usd)
    return replace(told, results=list(zip(examples, found.results, strict=True)), took=took)


def _usd(tokens: Estimate, price: Price | None) -> float | None:
    return None if price is None else price.usd(tokens.input_tokens, tokens.output_tokens)


def _checked(
    here: Context, who: Caller, text: str, kept: KeptRule | None
) -> tuple[tuple[Problem, ...], RuleText | None, Rule | None]:
    try:
        parsed = parse_rule(text)
        about = parsed.rule.project if kept is None else kept.stored.project
        rule = rule_access.checked(here, who, about, parsed)
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
