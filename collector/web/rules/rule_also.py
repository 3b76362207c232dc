"""Evaluating also what is stored already: how many days of it, and what that comes to, told before anybody saves."""

import hashlib
from dataclasses import dataclass, replace
from typing import Final

from collector.api.base.context import Context
from collector.live.rules.executor_kinds import executor_kind_of
from collector.web.rules.rule_draft import MOST_SPANS, Preview, RuleFormDraft
from collector.web.visitor import Form

MOST_DAYS: Final = 365
"""What a form takes; a backfill between any two instants is started on the page of the rule. A guess."""

_NS_OF_DAY: Final = 86_400_000_000_000
_DIGITS: Final = 16
_OFF: Final = "the rule evaluates nothing while it is not in force"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToo:
    """What a form says of spans that are stored already; no days: they are left alone."""

    text: str = ""  # as somebody wrote it
    days: int = 0
    problem: str = ""
    seen: str = ""  # of what the costs were told, when the form was sent
    told: str = ""  # of what they are told now
    evaluations: float | None = None  # about so many; None: it cannot be told
    usd: float | None = None  # what they cost together; None: nobody knows
    is_most: bool = False  # whether that is what they cost at most, and not what such cost of late
    asks: bool = False  # whether each asks a judge


NO_DAYS: Final = StoredToo()


def sent_days(sent: Form) -> StoredToo:
    """What somebody sent."""
    text = sent.text("also_days").strip()
    seen = sent.text("also_told")
    if not text or text == "0":
        return StoredToo(seen=seen)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MOST_DAYS)) and int(text) <= MOST_DAYS):
        return StoredToo(text=text, seen=seen, problem=f"must be a whole number of days, up to {MOST_DAYS}")
    return StoredToo(text=text, days=int(text), seen=seen)


def estimated(here: Context, whose: str, also: StoredToo, draft: RuleFormDraft, looked: Preview | None) -> StoredToo:
    """How many evaluations these days are if they are like what a preview looked at, and what they cost."""
    if not also.days or draft.rule is None or looked is None:
        return also
    if not draft.rule.enabled:
        return replace(also, problem=_OFF)
    told = replace(also, told=_digest(also.days, draft.text), asks=looked.executor_kind == "judge")
    if looked.trial is None or not looked.spans:
        return told
    since_ns = here.now_ns() - also.days * _NS_OF_DAY
    _, stored = here.rule_record.start_of_newest(since_ns, MOST_SPANS, tenant=whose or None)
    evaluations = looked.trial.evaluations * stored / looked.spans
    each, is_most = _cost_of_one(looked)
    return replace(told, evaluations=evaluations, usd=None if each is None else each * evaluations, is_most=is_most)


def why_not(also: StoredToo, draft: RuleFormDraft) -> str:
    """Why saving does not start this; "" where it does. What a judge costs is told first."""
    if not also.days or draft.rule is None:
        return ""
    if not draft.rule.enabled:
        return _OFF
    is_unseen = executor_kind_of(draft.rule) == "judge" and also.seen != _digest(also.days, draft.text)
    return "a judge is asked about these: see what that takes, and save again" if is_unseen else ""


def bounds_of(here: Context, also: StoredToo) -> tuple[int, int]:
    """Between which instants spans start that are looked at."""
    now_ns = here.now_ns()
    return now_ns - also.days * _NS_OF_DAY, now_ns


def _cost_of_one(looked: Preview) -> tuple[float | None, bool]:
    """What an evaluation took on average, else what it takes at most, and whether it is the latter."""
    if looked.cost is not None and looked.cost.evaluations and looked.cost.usd is not None:
        return looked.cost.usd, False
    if looked.offer is not None and looked.offer.usd is not None and looked.results:
        return looked.offer.usd / len(looked.results), True
    return None, False


def _digest(days: int, text: str) -> str:
    return hashlib.sha256(f"{days}\n{text}".encode()).hexdigest()[:_DIGITS]
