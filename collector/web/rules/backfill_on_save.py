"""Backfill from the form of a rule: the number of days, and the estimated cost, shown before saving."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from collector.api.base.context import Context
from collector.live.rules.executor_kinds import executor_kind_of
from collector.web.rules.rule_draft import MOST_SPANS, Preview, RuleFormDraft
from collector.web.visitor import Form

MOST_DAYS: Final = 365
"""Maximum number of days in the form; the page of a rule starts backfills between any two instants. A guess."""

_NS_OF_DAY: Final = 86_400_000_000_000
_DIGITS: Final = 16
_OFF: Final = "the rule is disabled; enable it to backfill"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOnSave:
    """The backfill that a rule form requests; without days, stored spans are left alone."""

    text: str = ""  # as typed
    days: int = 0
    problem: str = ""
    seen: str = ""  # the `digest` for which the sent form had shown the cost
    digest: str = ""  # of the days and the rule text that the cost is for
    evaluations: float | None = None  # estimated; None: unknown
    usd: float | None = None  # cost of all; None: unknown
    is_most: bool = False  # `usd` is a maximum, not extrapolated from recent costs
    asks: bool = False  # each evaluation calls a judge


NO_DAYS: Final = BackfillOnSave()


def sent_days(sent: Form) -> BackfillOnSave:
    """Parse the backfill fields of a sent form."""
    text = sent.text("also_days").strip()
    seen = sent.text("also_shown")
    if not text or text == "0":
        return BackfillOnSave(seen=seen)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_DAYS)) and int(text) <= MOST_DAYS):
        return BackfillOnSave(text=text, seen=seen, problem=f"must be a whole number of days, up to {MOST_DAYS}")
    return BackfillOnSave(text=text, days=int(text), seen=seen)


def estimated(
    context: Context, whose: str, also: BackfillOnSave, draft: RuleFormDraft, looked: Preview | None
) -> BackfillOnSave:
    """Estimate the evaluations of these days and their cost, from the spans of a preview."""
    if not also.days or draft.rule is None or looked is None:
        return also
    if not draft.rule.enabled:
        return replace(also, problem=_OFF)
    estimate = replace(also, digest=_digest(also.days, draft.text), asks=looked.executor_kind == "judge")
    if looked.trial is None or not looked.spans:
        return estimate
    since_ns = context.now_ns() - also.days * _NS_OF_DAY
    _, stored = context.store.rule_record.start_of_newest(since_ns, MOST_SPANS, tenant=whose or None)
    evaluations = looked.trial.evaluations * stored / looked.spans
    each, is_most = _cost_of_one(looked)
    return replace(estimate, evaluations=evaluations, usd=None if each is None else each * evaluations, is_most=is_most)


def backfill_refusal(also: BackfillOnSave, draft: RuleFormDraft) -> str:
    """Return why saving must not start the backfill, or "". The cost of judge calls must have been shown before."""
    if not also.days or draft.rule is None:
        return ""
    if not draft.rule.enabled:
        return _OFF
    is_unseen = executor_kind_of(draft.rule) == "judge" and also.seen != _digest(also.days, draft.text)
    return "this needs judge calls: check the cost, and save again" if is_unseen else ""


def bounds_of(context: Context, also: BackfillOnSave) -> tuple[int, int]:
    """Return the first and last start of the spans to evaluate."""
    now_ns = context.now_ns()
    return now_ns - also.days * _NS_OF_DAY, now_ns


def _cost_of_one(looked: Preview) -> tuple[float | None, bool]:
    """Return the average cost of an evaluation, or if unknown its maximum and True."""
    if looked.cost is not None and looked.cost.evaluations and looked.cost.usd is not None:
        return looked.cost.usd, False
    if looked.offer is not None and looked.offer.usd is not None and looked.results:
        return looked.offer.usd / len(looked.results), True
    return None, False


def _digest(days: int, text: str) -> str:
    return hashlib.sha256(f"{days}\n{text}".encode()).hexdigest()[:_DIGITS]
