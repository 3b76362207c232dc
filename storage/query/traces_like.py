"""What is asked of traces, and the statement that finds those of which it is true in a stretch of time."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import duckdb

from storage import sql
from storage.ingest.backlog import SEQ_BITS


def asked_for(statement: str, asked: Collection[str]) -> str:
    """A statement without the lines that end with `-- name`, where that is the name of a question that is not asked."""
    return "\n".join(text for text, name in marked_lines(statement) if name is None or name in asked)


def marked_lines(statement: str) -> list[tuple[str, str | None]]:
    """Its lines, each with the name of the question that it ends with; None: it stands there whatever is asked."""
    lines: list[tuple[str, str | None]] = []
    for line in statement.splitlines():
        text, mark, name = line.rpartition(" -- ")
        lines.append((text, name) if mark and name.isidentifier() else (line, None))
    return lines


Ranking: TypeAlias = Literal["duration", "cost", "tokens", "score"]

LAST_NS: Final = (1 << 63) - 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TracesLike:
    """What is asked of a trace; None: it does not matter. It is that of its root, or of any of its spans."""

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


def asked_of(like: TracesLike, by: Ranking | None = None) -> dict[str, object]:
    """The questions that are asked, by their names in `traces_like.sql`, and the values of those that have one."""
    asked: dict[str, object] = {name: getattr(like, name) for name in _VALUES if getattr(like, name) is not None}
    for name in ("name", "text"):
        if name in asked:
            asked[name] = str(asked[name]).lower()
    if like.is_error is not None:
        asked["is_error" if like.is_error else "is_ok"] = True
    for whole, members in (
        ("read", _OF_READING),
        ("judged", _OF_JUDGEMENTS),
        ("spans", _OF_SPANS),
    ):
        if set(members) & set(asked):
            asked[whole] = True
    if like.has_result:
        asked["judged"] = True
    asked["whole" if _OF_PARTS & set(asked) else "plain"] = True
    if like.attributes:
        asked |= {"spans": True, "attribute": True}
    return asked | _ranking(by)


def _ranking(by: Ranking | None) -> dict[str, object]:
    if by is None:
        return {}
    joined = {"cost": "amounts", "tokens": "amounts", "score": "scores"}.get(by)
    return dict.fromkeys([f"by_{by}", *filter(None, [joined])], True)


def values_of(asked: Mapping[str, object], like: TracesLike) -> dict[str, object]:
    """The parameters of a statement that asks so."""
    named: dict[str, object] = {name: asked[name] for name in _VALUES if name in asked}
    for number, (key, value) in enumerate(like.attributes.items()):
        named |= {f"key{number}": key, f"value{number}": value}
    return named


def asking(statement: str, asked: set[str], attributes: int) -> str:
    """A statement with the lines about what is asked, the one about an attribute for each of so many."""
    lines = []
    for text, name in marked_lines(statement):
        if name is None:
            lines.append(text)
        elif name in asked:
            many = range(attributes) if "$key" in text else range(1)
            lines += [text.replace("$key", f"$key{n}").replace("$value", f"$value{n}") for n in many]
    return "\n".join(lines)


def stretch(
    cursor: duckdb.DuckDBPyConnection, like: TracesLike, tenant: str | None, until_ns: int, parts: int
) -> tuple[int, int]:
    """How many parts start at or before an instant, at most so many, and how far back they go; of a session, traces."""
    bounds: dict[str, object] = {"until_ns": until_ns, "from_ns": like.from_ns, "parts": parts, "tenant": tenant}
    if like.session is None:
        select, asked = sql.query("stretch_of_traces"), bounds
    else:
        select, asked = sql.query("stretch_of_session"), {**bounds, "session": like.session}
    seen, oldest_ns = cursor.execute(select, asked).fetchall()[0]
    return seen, oldest_ns


def extent(cursor: duckdb.DuckDBPyConnection, floor_ns: int, until_ns: int) -> dict[str, int | None]:
    """Where the spans are, and the results about them, of the traces that have a part in a stretch of time."""
    bounds = {"floor_ns": floor_ns, "until_ns": until_ns}
    ((latest_ns, first, last),) = cursor.execute(sql.query("extent_of_stretch"), bounds).fetchall()
    numbers = (None, None) if latest_ns is None else (first << SEQ_BITS, ((last + 1) << SEQ_BITS) - 1)
    of_spans = dict(zip(("latest_ns", "first_batch", "last_batch"), (latest_ns, first, last), strict=True))
    return of_spans | dict(zip(("first_seq", "last_seq"), numbers, strict=True))


def extent_asked(asked: set[str], found: Mapping[str, int | None]) -> dict[str, int | None]:
    """What a statement that asks so needs of an extent."""
    wanted: set[str] = {"latest_ns", "first_batch", "last_batch"} if "spans" in asked else set()
    if "judged" in asked:
        wanted |= {"first_seq", "last_seq"}
    return {name: value for name, value in found.items() if name in wanted}
