"""Matching of rules by SQL over copied spans, in a separate DuckDB instance that holds nothing else.

If the statement of a rule makes DuckDB fail, or needs too much memory, only this instance fails, not the store's.
"""

import logging
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from storage import sql
from storage.engine.arrow import arrow_table
from storage.engine.opening import open_duckdb

log = logging.getLogger(__name__)

UNDECIDED: Final = 3
"""Outcome of a decision if the rule could not be matched because of an error, which is logged."""

DECISIONS: Final = pa.schema(
    [("revision", pa.int32()), ("seq", pa.int64()), ("outcome", pa.uint8()), ("clause", pa.uint16())]
)
TRACE_DECISIONS: Final = DECISIONS.append(pa.field("trace", pa.int64()))
JOBS: Final = pa.schema(
    [
        ("revision", pa.int32()),
        ("seq", pa.int64()),
        *((name, pa.string()) for name in ("tenant", "project", "trace_id", "span_id", "session_trace", "release")),
        ("service", pa.string()),
        ("started_at", pa.timestamp("us")),
    ]
)

_CLAUSES: Final = pa.schema(
    [
        ("revision", pa.int32()),
        ("trace", pa.int64()),
        ("holds", pa.bool_()),
        ("clause", pa.uint16()),
        ("is_undecided", pa.bool_()),
    ]
)

_FEW_ROWS: Final = 512
"""Up to this many spans are read from Arrow directly; more are copied to a table of DuckDB. For this many, three
statements took as long with a table, which costs two more statements, to create and to drop it."""

_TOGETHER: Final = 32
"""Rules that are matched in one statement: if it fails, the rules are bisected until the failing one is isolated. 18
rules over a window of 8,192 spans took 4.6 to 4.8 µs of CPU a span with a statement each, and 3.1 to 3.4 with one for
all. The bound is a guess."""

_PARAMETER: Final = re.compile(r"\$(\w+)")
_SAMPLED_BELOW: Final = re.compile(r"\bsampled_below\b")

_MEMORY: Final = "256MB"
"""A guess: a window has 32 MiB, and no statement needs more than that and its own answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expression:
    """A piece of SQL and the values of the parameters in it."""

    sql: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleQuery:
    """Expressions of a rule's revision: the clause that a span fails first, and the sampling of its trace."""

    revision: int
    tenant: str | None  # None: it covers the spans of all tenants
    clause: Expression
    sampled_below: str | None  # None: every trace is sampled
    judges_once: bool = False  # its judgements stay, even if more of the trace arrives


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseExpression:
    """Expression over the columns of a span by which some revisions distinguish releases."""

    sql: str
    revisions: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Matches of spans of some traces: for each rule the clauses, and the facts of each trace."""

    clauses: pa.Table
    facts: pa.Table


class RuleMatcherDb:
    """A DuckDB in memory, opened when it is first needed. For one thread."""

    def __init__(self, sampled: str) -> None:
        """`sampled` is an expression over `trace_id` and `sampled_below`, the bound of the rule."""
        self._sampled = sampled
        self.problems: dict[int, str] = {}  # last error of each revision that could not be matched
        self._opened: duckdb.DuckDBPyConnection | None = None
        self._looked_at: pa.Table | None = None

    def close(self) -> None:
        """Free the memory."""
        if self._opened is not None:
            self._opened.close()
        self._opened = self._looked_at = None

    def rest(self) -> None:
        """Drop the spans of the last statements."""
        if self._looked_at is None:
            return
        with self._closed_by_errors():
            self._drop_looked_at()
        self._looked_at = None

    def _drop_looked_at(self) -> None:
        if self._looked_at is not None and self._looked_at.num_rows <= _FEW_ROWS:
            self._connection.unregister("looked_at")
        elif self._looked_at is not None:
            self._connection.execute("DROP TABLE looked_at")

    def decide_spans(self, spans: pa.Table, questions: Sequence[RuleQuery]) -> pa.Table:
        """Decide each span by each rule of its tenant, and by the rules of all tenants."""
        self._look_at(spans)
        asking = _asking(questions, spans)
        tables: dict[int, pa.Table] = {}
        for group in _groups(asking, alone=self.problems):
            tables |= self._decide_together(spans, group)
        return pa.concat_tables([DECISIONS.empty_table(), *(tables[one.revision] for one in asking)])

    def jobs_of_spans(self, spans: pa.Table, decisions: pa.Table, releases: Sequence[ReleaseExpression]) -> pa.Table:
        """Return the jobs of the spans that were matched."""
        self._look_at(spans)
        self._register("decided", decisions)
        text = sql.query("jobs_of_spans").replace("/* release */", _release([one.sql for one in releases], releases))
        return self._answer(text)

    def arrivals(self, spans: pa.Table, tenants: Sequence[str] | None) -> pa.Table:
        """Return the arrivals of each trace of these tenants; None means all."""
        self._look_at(spans)
        return self._answer(sql.query("arrivals"), {"tenants": None if tenants is None else list(tenants)})

    def find(self, spans: pa.Table, questions: Sequence[RuleQuery], releases: Sequence[ReleaseExpression]) -> Found:
        """Match spans of traces; a trace may have further spans in other calls, whose results `decide_traces` joins."""
        self._look_at(spans)
        facts = "".join(
            f",\n    arg_min({one.sql}, start_time) AS r{number}"
            f",\n    min(start_time) FILTER (WHERE {one.sql} IS NOT NULL) AS r{number}_at"
            for number, one in enumerate(releases)
        )
        furthest = [self._furthest(spans, one) for one in _asking(questions, spans)]
        return Found(
            clauses=pa.concat_tables([_CLAUSES.empty_table(), *furthest]),
            facts=self._answer(sql.query("facts_of_traces").replace("/* releases */", facts)),
        )

    def decide_traces(self, traces: pa.Table, parts: Sequence[Found], questions: Sequence[RuleQuery]) -> pa.Table:
        """Decide each trace by each rule, from the matches of all its parts; return `TRACE_DECISIONS`."""
        self._register("traces", traces)
        self._register("found", pa.concat_tables([part.clauses for part in parts]))
        self._register("sampling", _sampling(questions))
        text = sql.query("decide_traces").replace("/* sampled */", f"(sampled_below IS NULL OR {self._sampled})")
        return self._answer(text)

    def jobs_of_traces(
        self, traces: pa.Table, decisions: pa.Table, parts: Sequence[Found], releases: Sequence[ReleaseExpression]
    ) -> pa.Table:
        """Return the jobs of the traces that were matched."""
        self._register("traces", traces)
        self._register("decided", decisions)
        self._register("facts", pa.concat_tables([part.facts for part in parts]))
        numbers = range(len(releases))
        about = "".join(
            f",\n    coalesce(arg_min(r{n}, r{n}_at) FILTER (WHERE is_root), arg_min(r{n}, r{n}_at)) AS r{n}"
            for n in numbers
        )
        text = sql.query("jobs_of_traces").replace("/* releases */", about)
        text = text.replace("/* release */", _release([f"a.r{n}" for n in numbers], releases))
        return self._answer(text)

    def _furthest(self, spans: pa.Table, question: RuleQuery) -> pa.Table:
        text = sql.query("furthest_clauses").replace("/* clause */", question.clause.sql)
        clauses = self._ask(text, question, {**question.clause.parameters, "tenant": question.tenant}, spans)
        if clauses is None:
            clauses = self._answer(sql.query("traces_of_tenant"), {"tenant": question.tenant})
        return _of_revision(clauses, question.revision).cast(_CLAUSES)

    def _decide_together(self, spans: pa.Table, questions: Sequence[RuleQuery]) -> dict[int, pa.Table]:
        """Decide each span by some rules of one tenant, by revision; rules that fail are isolated by bisection."""
        if len(questions) == 1:
            return {questions[0].revision: self._decide_alone(spans, questions[0])}
        text, parameters = self._statement(questions)
        try:
            answer = self._answer(text, parameters)
        except (duckdb.Error, RuntimeError) as error:
            log.debug("%d rules cannot be matched in one statement: %s", len(questions), error)
            self._look_at(spans)
            half = len(questions) // 2
            return self._decide_together(spans, questions[:half]) | self._decide_together(spans, questions[half:])
        return {one.revision: _decisions(answer, one.revision, number) for number, one in enumerate(questions)}

    def _decide_alone(self, spans: pa.Table, question: RuleQuery) -> pa.Table:
        text, parameters = self._statement([question])
        answer = self._ask(text, question, parameters, spans)
        if answer is None:
            undecided = self._answer(sql.query("spans_of_tenant"), {"tenant": question.tenant})
            return _of_revision(undecided, question.revision).cast(DECISIONS)
        return _decisions(answer, question.revision, 0)

    def _statement(self, questions: Sequence[RuleQuery]) -> tuple[str, dict[str, Any]]:
        """Return one statement for some rules of one tenant; parameters are renamed, so that no two rules share one."""
        clauses = outcomes = ""
        parameters: dict[str, Any] = {"tenant": questions[0].tenant}
        for number, one in enumerate(questions):
            clause, values = _renamed(one.clause, f"q{number}_")
            parameters |= values
            sampled = "true"
            if one.sampled_below is not None and _SAMPLED_BELOW.search(self._sampled):
                sampled = _SAMPLED_BELOW.sub(f"$below_{number}", self._sampled)
                parameters[f"below_{number}"] = one.sampled_below
            clauses += f",\n{clause} AS c{number}"
            outcomes += (
                f",\nCASE WHEN c{number} IS NOT NULL THEN 0 WHEN {sampled} THEN 2 ELSE 1 END::UTINYINT AS o{number}"
            )
            outcomes += f",\nc{number}::USMALLINT AS c{number}"
        text = sql.query("decide_spans").replace("/* clauses */", clauses)
        return text.replace("/* outcomes */", outcomes), parameters

    def _ask(self, text: str, question: RuleQuery, parameters: Mapping[str, Any], spans: pa.Table) -> pa.Table | None:
        """Return the answer, or None if it failed in a new DuckDB too."""
        for again in (False, True):
            try:
                answer = self._answer(text, parameters)
            except (duckdb.Error, RuntimeError) as error:
                self._look_at(spans)
                if again:
                    self._blame(question.revision, error)
            else:
                return answer
        return None

    def _blame(self, revision: int, error: Exception) -> None:
        if revision not in self.problems:
            log.error(
                "rule revision %d cannot be matched; its decisions are recorded as undecided: %s", revision, error
            )
        self.problems[revision] = str(error)

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        if self._opened is None:
            self._opened = _connect()
        return self._opened

    def _answer(self, text: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        with self._closed_by_errors():
            return arrow_table(self._connection, text, parameters and dict(parameters))

    @contextmanager
    def _closed_by_errors(self) -> Iterator[None]:
        """Close the database if a statement fails, because after some errors DuckDB refuses all others."""
        try:
            yield
        except (duckdb.Error, RuntimeError):
            self.close()
            raise

    def _look_at(self, spans: pa.Table) -> None:
        """Load spans as `looked_at`: many as a table of DuckDB, which costs a statement a third of reading Arrow."""
        if spans is not self._looked_at:
            with self._closed_by_errors():
                self._drop_looked_at()
                if spans.num_rows <= _FEW_ROWS:
                    self._register("looked_at", spans)
                    self._looked_at = spans
                    return
                self._register("incoming", spans)
                self._connection.execute("CREATE TABLE looked_at AS FROM incoming")
                self._connection.unregister("incoming")
            self._looked_at = spans

    def _register(self, name: str, table: pa.Table) -> None:
        self._connection.register(name, table)


def _asking(questions: Sequence[RuleQuery], spans: pa.Table) -> list[RuleQuery]:
    # With many tenants, most windows have spans of a few.
    tenants = {None, *pc.unique(spans["tenant"]).to_pylist()}
    return [question for question in questions if question.tenant in tenants]


def _groups(questions: Sequence[RuleQuery], *, alone: Container[int]) -> list[list[RuleQuery]]:
    """Group the rules of each tenant for one statement, up to `_TOGETHER`; rules that failed before stay alone."""
    by_tenant: dict[str | None, list[RuleQuery]] = {}
    for question in questions:
        if question.revision not in alone:
            by_tenant.setdefault(question.tenant, []).append(question)
    groups = [some[at : at + _TOGETHER] for some in by_tenant.values() for at in range(0, len(some), _TOGETHER)]
    return [*groups, *([question] for question in questions if question.revision in alone)]


def _renamed(expression: Expression, prefix: str) -> tuple[str, dict[str, Any]]:
    text = _PARAMETER.sub(lambda match: f"${prefix}{match[1]}", expression.sql)
    return text, {f"{prefix}{name}": value for name, value in expression.parameters.items()}


def _decisions(answer: pa.Table, revision: int, number: int) -> pa.Table:
    columns = answer.select(["seq", f"o{number}", f"c{number}"]).rename_columns(["seq", "outcome", "clause"])
    return _of_revision(columns, revision).cast(DECISIONS)


def _of_revision(table: pa.Table, revision: int) -> pa.Table:
    return table.add_column(0, "revision", pa.repeat(pa.scalar(revision, pa.int32()), table.num_rows))


def _sampling(questions: Sequence[RuleQuery]) -> pa.Table:
    return pa.table(
        {
            "revision": pa.array([question.revision for question in questions], pa.int32()),
            "sampled_below": pa.array([question.sampled_below for question in questions], pa.string()),
        }
    )


def _release(expressions: Sequence[str], releases: Sequence[ReleaseExpression]) -> str:
    """Return the SQL expression of the release, which depends on the column `revision` of a decision."""
    whens = [
        f"WHEN revision IN ({', '.join(map(str, release.revisions))}) THEN {expression}"
        for expression, release in zip(expressions, releases, strict=True)
    ]
    return f"CASE {' '.join(whens)} END"


def _connect() -> duckdb.DuckDBPyConnection:
    return open_duckdb(
        {
            "threads": 1,
            "memory_limit": _MEMORY,
            "python_enable_replacements": False,
            "autoinstall_known_extensions": False,
            "enable_external_access": False,
        }
    )
