"""Manual evaluation of a span or a trace, for the API's route and for the page."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collector.access.caller import Caller
from collector.api.base.context import Context
from collector.conventions.values import text_of
from collector.evaluation.rule_trial import TargetExample
from collector.live.jobs.trials import TrialAnswers, most_of
from collector.live.judges.judges import JudgeTerms
from collector.live.rules.active_rules import LoadedRule
from collector.live.rules.executor_kinds import executor_kind_of
from evaluators.chat.request import cost_usd
from evaluators.chat.request_budget import Estimate
from evaluators.errors import BadConfiguration
from storage.errors import BadQuery, Conflict, NotFound
from storage.judging.job_results import JobResult
from storage.judging.jobs import JudgedByHand
from storage.judging.judgements import TargetToJudge
from storage.records import Span

_US: Final = 1_000
_NOWHERE: Final = "this rule does not judge it now: "


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOffer:
    """A rule that can judge a target now, and the maximum cost."""

    kept: LoadedRule
    terms: Sequence[JudgeTerms] = ()  # one per voting judge; empty: it calls no model, or cannot (`problem`)
    usd: float | None = None  # None: it costs nothing, or a model has no price
    problem: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManualVerdict:
    """Result of a manual evaluation. Only scores are stored: a failure says nothing of the target."""

    result: JobResult
    calls: int
    taken: Estimate
    usd: float | None
    job_id: int | None  # None: it is not stored


def target_of(context: Context, tenant: str | None, trace_id: str, span_id: str | None) -> TargetToJudge:
    """Return a trace or a span to judge: the tenant's own or a shared one; if `tenant` is None, one of any tenant.

    Raises:
        NotFound: no such trace or span is stored.
    """
    key, outline = trace_id.lower(), context.store.outlines.of_trace(trace_id.lower(), tenant=tenant, max_spans=1)
    if outline is not None:
        span = None if span_id is None else span_id.lower()
        target = context.store.judgements.target(key, span, tenant=outline.summary.tenant)
        if target is not None:
            return target
    raise NotFound(f"there is no such {'trace' if span_id is None else 'span'} here")


def offers(context: Context, caller: Caller, target: TargetToJudge) -> list[RuleOffer]:
    """Return the caller's rules that can judge the target now, by name, whether or not their conditions match it."""
    able = [kept for kept in context.rules.kept() if caller.owns(kept.stored.tenant) and _refusal(kept, target) is None]
    return [_offer(context, kept) for kept in sorted(able, key=lambda kept: kept.active.rule.name)]


def offer_of(context: Context, kept: LoadedRule, target: TargetToJudge) -> RuleOffer:
    """Return the maximum cost of judging a target by the rule.

    Raises:
        BadQuery: the rule does not judge such a target, or not now.
        Conflict: the rule's judge cannot be called.
    """
    why = _refusal(kept, target)
    if why is not None:
        raise BadQuery(_NOWHERE + why)
    offer = _offer(context, kept)
    if offer.problem is not None:
        raise Conflict(offer.problem)
    return offer


def judge_now(context: Context, kept: LoadedRule, target: TargetToJudge) -> ManualVerdict:
    """Judge a target by a rule, and store the score in place of the rule's earlier one.

    Its calls count against the budgets, and cost at most `usd` of `offer_of`.

    Raises:
        BadQuery, Conflict: as `offer_of`.
        Overloaded: too many calls are running, or the score cannot be stored now.
    """
    offer = offer_of(context, kept, target)
    rule, example = kept.active.rule, _example(target)
    if offer.terms:
        answers = context.trials.ask(kept.stored.tenant, kept.stored.rule_id, rule, [example])
    else:
        results = context.trials.evaluate(rule, [example])
        answers = TrialAnswers(results=results, calls=0, taken=Estimate(input_tokens=0, output_tokens=0), usd=None)
    (result,) = answers.results
    return ManualVerdict(
        result=result,
        calls=answers.calls,
        taken=answers.taken,
        usd=answers.usd,
        job_id=_stored(context, kept, target, result) if result.outcome == "scored" else None,
    )


def _refusal(kept: LoadedRule, target: TargetToJudge) -> str | None:
    """Return why a rule cannot judge the target now, or None."""
    rule, kind = kept.active.rule, "TRACE" if target.span_id is None else "SPAN"
    if rule.target != kind:
        return f"it is about each {rule.target.lower()}"
    if not rule.enabled:
        return "it is switched off"
    if kept.stored.tenant not in {"", target.tenant} or rule.project not in {None, target.project}:
        return "it is about other projects"
    if executor_kind_of(rule) == "code":
        return "it runs a program, which judges what its conditions match"
    if kind == "TRACE" and target.is_open:
        return "the trace has not settled; spans of it may still come"
    return None


def _offer(context: Context, kept: LoadedRule) -> RuleOffer:
    if executor_kind_of(kept.active.rule) != "judge":
        return RuleOffer(kept=kept)
    try:
        terms = context.trials.terms(kept.stored.tenant, kept.stored.rule_id, kept.active.rule)
    except BadConfiguration as error:
        return RuleOffer(kept=kept, problem=str(error))
    costs = []
    for each in terms:
        most = most_of(each.max_output_tokens)
        costs.append(cost_usd(each.price, most.input_tokens, most.output_tokens))
    return RuleOffer(kept=kept, terms=terms, usd=None if None in costs else sum(filter(None, costs)))


def _example(target: TargetToJudge) -> TargetExample:
    return TargetExample(
        tenant=target.tenant,
        project=target.project,
        seq=target.seq,
        trace_id=target.trace_id,
        span_id=target.span_id,
    )


def _stored(context: Context, kept: LoadedRule, target: TargetToJudge, result: JobResult) -> int:
    judged = JudgedByHand(
        revision=kept.active.revision,
        seq=target.seq,
        tenant=target.tenant,
        project=target.project,
        trace_id=target.trace_id,
        span_id=target.span_id,
        release=_release(context, kept, target),
        result=result,
    )
    return context.store.jobs.store_by_hand(judged, now_us=time.time_ns() // _US)


def _release(context: Context, kept: LoadedRule, target: TargetToJudge) -> str | None:
    """Return the release, by the rule's `compare_by` attribute, of the span or of the trace's first span."""
    outline = context.store.outlines.of_trace(target.trace_id, tenant=target.tenant, max_spans=1)
    if outline is None:
        return None
    first = next((each.span_id for each in outline.spans), "")
    whole = context.store.outlines.span(outline, target.span_id or first)
    return None if whole is None else _attribute(whole.span, kept.active.rule.compare_by)


def _attribute(span: Span, name: str) -> str | None:
    values: Sequence[str | None] = [text_of(of.get(name)) for of in (span.attributes, span.resource.attributes)]
    return next((text for text in values if text is not None), None)
