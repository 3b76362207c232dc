"""Filters of a list of traces in a URL, for the page and for saved views."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, get_args

from collector.api.base.times import time_text
from collector.api.traces.trace_filters import Filters, like_of
from storage.errors import BadQuery
from storage.query.text_pattern import MOST_CHARACTERS
from storage.query.trace_criteria import Ranking, TraceCriteria
from storage.records import number_in

LABELS: Final[Mapping[str, str]] = {
    "text": "text",
    "project": "project",
    "status": "status",
    "since": "started",
    "service": "service",
    "name": "name",
    "failing": "failing span",
    "rule": "rule",
    "verdict": "verdict",
    "user": "user",
    "session": "session",
    "model": "model",
    "release": "release",
    "attribute": "attribute",
    "duration": "took at least, s",
    "cost": "cost at least, USD",
    "from": "from",
    "to": "to",
}
"""Filters by their names in the URL, with their labels on the page."""

SINCE: Final = {
    "15m": ("15 minutes", 900),
    "1h": ("hour", 3_600),
    "24h": ("24 hours", 86_400),
    "7d": ("7 days", 604_800),
}
VERDICTS: Final = {
    "passed": ("scored", True),
    "failed": ("scored", False),
    "any": (None, None),
    "broken": ("failed", None),
    "skipped": ("skipped", None),
}
NONE: Final = "(none)"
"""Stands for the empty name of a project or a service."""

ORDERS: Final[Mapping[str, str]] = {
    "": "newest",
    "duration": "longest",
    "cost": "most expensive",
    "tokens": "most tokens",
    "score": "worst score",
}
RANKED_SINCE: Final = "7d"
"""Default period of a list that is sorted by an amount."""

_NS: Final = 1_000_000_000
_STATUSES: Final = ("ok", "error")
_TRACE_ID: Final = re.compile(r"[0-9a-fA-F]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFilter:
    """Filters in a list's URL: their texts, the criteria that result, and the problems of invalid filters."""

    values: Mapping[str, str]
    like: TraceCriteria
    by: Ranking | None = None
    problems: Mapping[str, str] = field(default_factory=dict)

    @property
    def given(self) -> list[str]:
        """Return the names of the filters that are set."""
        return [name for name in LABELS if self.values[name]]

    @property
    def trace_id(self) -> str | None:
        """Return the text filter in lower case if it is a trace id and the only filter, else None."""
        text = self.values["text"]
        return text.lower() if self.given == ["text"] and _TRACE_ID.fullmatch(text) else None


def filter_of(params: Mapping[str, str], now_ns: int) -> TraceFilter:
    """Parse the parameters of a list; empty ones are not filters, and `problems` names invalid ones."""
    values = {name: params.get(name, "").strip() for name in LABELS}
    values["text"] = values["text"][:MOST_CHARACTERS]  # of a long stack trace that is pasted, the beginning is searched
    sort = params.get("sort", "")
    by = next((each for each in get_args(Ranking) if each == sort), None)
    problems = _misspelled(values)
    duration, cost = (_amount(name, values[name], problems) for name in ("duration", "cost"))
    usable = {name: "" if name in problems else value for name, value in values.items()}
    since = usable["since"] or (RANKED_SINCE if by and not usable["from"] else "")
    outcome, passed = VERDICTS.get(usable["verdict"], (None, None))
    filters = Filters(
        project=_named(usable["project"]),
        service=_named(usable["service"]),
        name=usable["name"] or None,
        status="error" if usable["status"] == "error" else "ok" if usable["status"] == "ok" else None,
        from_=usable["from"] or (time_text(now_ns - SINCE[since][1] * _NS) if since else None),
        to=usable["to"] or None,
        session=usable["session"] or None,
        user=usable["user"] or None,
        failing=usable["failing"] or None,
        text=usable["text"] or None,
        model=usable["model"] or None,
        release=usable["release"] or None,
        attribute=[usable["attribute"]] if usable["attribute"] else None,
        duration=duration,
        cost=cost,
    )
    try:
        like = like_of(filters, rule=usable["rule"] or None, outcome=outcome, passed=passed)
    except BadQuery as error:
        name, _, message = str(error).partition(": ")
        return TraceFilter(values=values, like=TraceCriteria(), by=by, problems={**problems, name: message})
    like = replace(like, has_result=usable["verdict"] == "any")
    return TraceFilter(values=values, like=like, by=by, problems=problems)


def _misspelled(values: Mapping[str, str]) -> dict[str, str]:
    """Return the problems of fields that take one of a few words."""
    problems = {}
    for name, known in (("since", SINCE), ("verdict", VERDICTS), ("status", _STATUSES)):
        if values[name] and values[name] not in known:
            problems[name] = f"{values[name][:50]!r} is none of {', '.join(known)}"
    return problems


def _amount(name: str, text: str, problems: dict[str, str]) -> float | None:
    """Parse the number in a field; if it is not a valid amount, add a problem to `problems`."""
    if not text:
        return None
    value = number_in(text)
    if value is not None and 0 <= value <= _MOST_AMOUNT:
        return value
    form = "seconds without a unit, such as 1.5" if name == "duration" else "USD, such as 0.05"
    problems[name] = f"{text[:50]!r} is not a number of {form}"
    return None


_MOST_AMOUNT: Final = 1e9


def _named(text: str) -> str | None:
    # NONE asks for the empty name.
    return "" if text == NONE else text or None
