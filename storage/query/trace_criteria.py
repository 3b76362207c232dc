"""Filters of traces, and the statement that finds the matching ones in a time window."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import duckdb

from storage import sql
from storage.ingest.backlog import SEQ_BITS


def asked_for(statement: str, questions: Collection[str]) -> str:
    """Return a statement without the lines that end with `-- name` of a question that is not used."""
    return "\n".join(text for text, name in marked_lines(statement) if name is None or name in questions)


def marked_lines(statement: str) -> list[tuple[str, str | None]]:
    """Return the lines, each with the question at its end; None: the line is always there."""
    lines: list[tuple[str, str | None]] = []
    for line in statement.splitlines():
        text, mark, name = line.rpartition(" -- ")
        lines.append((text, name) if mark and name.isidentifier() else (line, None))
    return lines


Ranking: TypeAlias = Literal["duration", "cost", "tokens", "score"]

LAST_NS: Final = (1 << 63) - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCriteria:
    """Filter of traces; None matches all. Values are those of its root, or of any span."""

    project: str | None = None
    service: str | None = None
    name: str | None = None  # the name of the root holds it, in any case of letters
    is_error: bool | None = None  # whether any span failed
    from_ns: int = 0  # it starts then or later
    to_ns: int = LAST_NS  # and before
    session: str | None = None
    user: str | None = None
    least_ns: int | None = None  # it took as long, or longer
    least_usd: float | None = None  # it cost as much, or more
    failing: str | None = None  # the name of a span of it that failed
    text: str | None = None  # its input or its output holds it, in any case of letters
    model: str | None = None  # of any span
    release: str | None = None  # the version of the service of any span
    attributes: Mapping[str, str] = field(default_factory=dict)  # of one span, or of its resource
    has_result: bool = False  # it has one, or a span of it, whatever it says
    rule: str | None = None  # that judged it, or a span of it; name or id
    outcome: str | None = None  # scored, failed or skipped
    passed: bool | None = None


_OF_READING: Final = ("session", "user", "least_usd", "text")
_OF_SPANS: Final = ("model", "failing", "release")
_OF_JUDGEMENTS: Final = ("rule", "outcome", "passed")
_VALUES: Final = ("project", "service", "name", "least_ns", *_OF_READING, *_OF_SPANS, *_OF_JUDGEMENTS)
_OF_PARTS: Final = frozenset({"project", "service", "name", "least_ns", "is_error", "is_ok"})


def asked_of(criteria: TraceCriteria, by: Ranking | None = None) -> dict[str, object]:
    """Return the questions in use, by their names in `traces_like.sql`, with the values of those that have one."""
    questions: dict[str, object] = {
        name: getattr(criteria, name) for name in _VALUES if getattr(criteria, name) is not None
    }
    for name in ("name", "text"):
        if name in questions:
            questions[name] = str(questions[name]).lower()
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


def _ranking(by: Ranking | None) -> dict[str, object]:
    if by is None:
        return {}
    joined = {"cost": "amounts", "tokens": "amounts", "score": "scores"}.get(by)
    return dict.fromkeys([f"by_{by}", *filter(None, [joined])], True)


def values_of(questions: Mapping[str, object], criteria: TraceCriteria) -> dict[str, object]:
    """Return the parameters of a statement with these questions."""
    named: dict[str, object] = {name: questions[name] for name in _VALUES if name in questions}
    for number, (key, value) in enumerate(criteria.attributes.items()):
        named |= {f"key{number}": key, f"value{number}": value}
    return named


def asking(statement: str, questions: set[str], attributes: int) -> str:
    """Return a statement with the lines of the questions in use, and one line per attribute."""
    lines = []
    for text, name in marked_lines(statement):
        if name is None:
            lines.append(text)
        elif name in questions:
            many = range(attributes) if "$key" in text else range(1)
            lines += [text.replace("$key", f"$key{n}").replace("$value", f"$value{n}") for n in many]
    return "\n".join(lines)


def stretch(
    cursor: duckdb.DuckDBPyConnection, criteria: TraceCriteria, tenant: str | None, until_ns: int, parts: int
) -> tuple[int, int]:
    """Count the parts, or a session's traces, that start by an instant, up to a limit; return the oldest start too."""
    bounds: dict[str, object] = {"until_ns": until_ns, "from_ns": criteria.from_ns, "parts": parts, "tenant": tenant}
    if criteria.session is None:
        select, parameters = sql.query("stretch_of_traces"), bounds
    else:
        select, parameters = sql.query("stretch_of_session"), {**bounds, "session": criteria.session}
    seen, oldest_ns = cursor.execute(select, parameters).fetchall()[0]
    return seen, oldest_ns


def extent(cursor: duckdb.DuckDBPyConnection, floor_ns: int, until_ns: int) -> dict[str, int | None]:
    """Return the extents of the spans, and of the results about them, of the traces with a part in a time window."""
    bounds = {"floor_ns": floor_ns, "until_ns": until_ns}
    ((latest_ns, first, last),) = cursor.execute(sql.query("extent_of_stretch"), bounds).fetchall()
    numbers = (None, None) if latest_ns is None else (first << SEQ_BITS, ((last + 1) << SEQ_BITS) - 1)
    of_spans = dict(zip(("latest_ns", "first_batch", "last_batch"), (latest_ns, first, last), strict=True))
    return of_spans | dict(zip(("first_seq", "last_seq"), numbers, strict=True))


def extent_asked(questions: set[str], bounds: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the part of an extent that a statement with these questions needs."""
    names: set[str] = {"latest_ns", "first_batch", "last_batch"} if "spans" in questions else set()
    if "judged" in questions:
        names |= {"first_seq", "last_seq"}
    return {name: value for name, value in bounds.items() if name in names}
