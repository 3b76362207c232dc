"""Filters of traces, and the statement that finds the matching ones in a time window."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import duckdb

from storage import sql
from storage.ingest.backlog import SEQ_BITS
from storage.query.text_pattern import text_pattern


def asked_for(statement: str, questions: Collection[str]) -> str:
    """Return a statement without its optional lines (they end with `-- name`) whose name is not in `questions`."""
    return "\n".join(text for text, name in marked_lines(statement) if name is None or name in questions)


def marked_lines(statement: str) -> list[tuple[str, str | None]]:
    """Return the lines, each with the name in the comment at its end, or None if the line is not optional."""
    lines: list[tuple[str, str | None]] = []
    for line in statement.splitlines():
        text, mark, name = line.rpartition(" -- ")
        lines.append((text, name) if mark and name.isidentifier() else (line, None))
    return lines


Ranking: TypeAlias = Literal["duration", "cost", "tokens", "score"]

LAST_NS: Final = (1 << 63) - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCriteria:
    """Filter of traces; None matches all."""

    project: str | None = None
    service: str | None = None
    name: str | None = None  # part of the root's name, in upper or lower case
    is_error: bool | None = None  # whether any span failed
    from_ns: int = 0  # the trace starts at this time or later
    to_ns: int = LAST_NS  # the trace starts before this time
    session: str | None = None
    user: str | None = None
    least_ns: int | None = None  # minimum duration
    least_usd: float | None = None  # minimum cost
    failing: str | None = None  # name of a failed span
    text: str | None = None  # in a text of any span (`spans_with_text.sql`), in upper or lower case; see `text_pattern`
    model: str | None = None  # of any span
    release: str | None = None  # the version of the service of any span
    attributes: Mapping[str, str] = field(default_factory=dict)  # of one span, or of its resource
    has_result: bool = False  # the trace or one of its spans has any result
    rule: str | None = None  # name or id of a rule that judged the trace or one of its spans
    outcome: str | None = None  # scored, failed or skipped
    passed: bool | None = None


_EMBEDDED: Final = "FROM spans_with_text"  # stands for the statement of this name
_ID: Final = re.compile(r"[0-9a-f]{4,32}")
"""What is compared with ids, too. With fewer digits, most traces would match. A guess."""

_OF_READING: Final = ("session", "user", "least_usd")
_OF_SPANS: Final = ("model", "failing", "release")
_OF_JUDGEMENTS: Final = ("rule", "outcome", "passed")
_VALUES: Final = ("project", "service", "name", "least_ns", *_OF_READING, *_OF_SPANS, *_OF_JUDGEMENTS)
_TEXTS: Final = ("text", "text_id")
_OF_PARTS: Final = frozenset({"project", "service", "name", "least_ns", "is_error", "is_ok"})


def asked_of(criteria: TraceCriteria, by: Ranking | None = None) -> dict[str, object]:
    """Return the names of optional lines of `traces_like.sql` that are used, each with its parameter, or True."""
    questions: dict[str, object] = {
        name: getattr(criteria, name) for name in _VALUES if getattr(criteria, name) is not None
    }
    if criteria.name is not None:
        questions["name"] = criteria.name.lower()
    if criteria.text is not None:
        questions |= text_asked(criteria.text)
    if criteria.is_error is not None:
        questions["is_error" if criteria.is_error else "is_ok"] = True
    for whole, members in (
        ("read", _OF_READING),
        ("judged", _OF_JUDGEMENTS),
        ("spans", _OF_SPANS),
    ):
        if set(members) & set(questions):
            questions[whole] = True
    if criteria.has_result:
        questions["judged"] = True
    questions["whole" if _OF_PARTS & set(questions) else "plain"] = True
    if criteria.attributes:
        questions |= {"spans": True, "attribute": True}
    return questions | _ranking(by)


def text_asked(text: str) -> dict[str, object]:
    """Return the parameters of `spans_with_text`: the pattern of a text, and the text if an id may begin with it."""
    pattern, _ = text_pattern(text)
    digits = text.strip().lower().replace("-", "")
    return {"text": pattern, **({"text_id": digits} if _ID.fullmatch(digits) else {})}


def _ranking(by: Ranking | None) -> dict[str, object]:
    if by is None:
        return {}
    joined = {"cost": "amounts", "tokens": "amounts", "score": "scores"}.get(by)
    return dict.fromkeys([f"by_{by}", *filter(None, [joined])], True)


def values_of(questions: Mapping[str, object], criteria: TraceCriteria) -> dict[str, object]:
    """Return the parameters of a statement with these optional lines."""
    named: dict[str, object] = {name: questions[name] for name in (*_VALUES, *_TEXTS) if name in questions}
    for number, (key, value) in enumerate(criteria.attributes.items()):
        named |= {f"key{number}": key, f"value{number}": value}
    return named


def asking(statement: str, questions: set[str], attributes: int) -> str:
    """Return a statement with those optional lines that are in `questions`; a line with `$key` once per attribute."""
    lines = []
    for text, name in marked_lines(statement):
        if name is None:
            lines.append(text)
        elif name in questions and _EMBEDDED in text:
            lines.append(sql.bare(asked_for(sql.query("spans_with_text"), {"of_traces", *questions})))
        elif name in questions:
            many = range(attributes) if "$key" in text else range(1)
            lines += [text.replace("$key", f"$key{n}").replace("$value", f"$value{n}") for n in many]
    return "\n".join(lines)


def stretch(
    cursor: duckdb.DuckDBPyConnection, criteria: TraceCriteria, tenant: str | None, until_ns: int, parts: int
) -> tuple[int, int]:
    """Count up to `parts` trace parts, or traces of a session, that start no later than `until_ns`, newest first.

    Return the number, and the start of the oldest one. For a text, `parts` is a number of spans, whose texts are read.
    """
    bounds: dict[str, object] = {"until_ns": until_ns, "from_ns": criteria.from_ns, "parts": parts, "tenant": tenant}
    if criteria.session is not None:
        select, parameters = sql.query("stretch_of_session"), {**bounds, "session": criteria.session}
    elif criteria.text is not None:
        select, parameters = sql.query("stretch_of_spans"), bounds
    else:
        select, parameters = sql.query("stretch_of_traces"), bounds
    seen, oldest_ns = cursor.execute(select, parameters).fetchall()[0]
    return seen, oldest_ns


def extent(cursor: duckdb.DuckDBPyConnection, floor_ns: int, until_ns: int) -> dict[str, int | None]:
    """Return bounds for finding the spans and results of all traces that have a part in a time window."""
    bounds = {"floor_ns": floor_ns, "until_ns": until_ns}
    ((latest_ns, first, last),) = cursor.execute(sql.query("extent_of_stretch"), bounds).fetchall()
    numbers = (None, None) if latest_ns is None else (first << SEQ_BITS, ((last + 1) << SEQ_BITS) - 1)
    of_spans = dict(zip(("latest_ns", "first_batch", "last_batch"), (latest_ns, first, last), strict=True))
    return of_spans | dict(zip(("first_seq", "last_seq"), numbers, strict=True))


def extent_asked(questions: set[str], bounds: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return those bounds of `extent` that a statement with these optional lines has as parameters."""
    names: set[str] = {"latest_ns", "first_batch", "last_batch"} if {"spans", "text"} & questions else set()
    if "judged" in questions:
        names |= {"first_seq", "last_seq"}
    return {name: value for name, value in bounds.items() if name in names}
