"""Hostile calls of DuckDB's functions, and a process that runs them on a store.

The process takes statements line by line, as JSON, and answers each with how it ended. It is a process of its own
because some calls kill it, and some never end.
"""

import json
import random
import resource
import select
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from storage.engine.database import DatabaseOptions
from storage.errors import BadQuery
from storage.query.query_options import QueryOptions
from storage.store import Store, StoreOptions
from tests import forking
from tests.live import environment
from tests.source_tree import ROOT
from tests.storing import a_batch, an_export, commit

VALUES: Final[dict[str, list[str]]] = tomllib.loads(
    Path(__file__).with_name("nasty_values.toml").read_text(encoding="utf-8")
)
_LAMBDAS: Final = frozenset(VALUES["lambdas"])
_ANY: Final = ["NULL", "DEFAULT", *(value for kind, some in VALUES.items() if kind != "lambdas" for value in some)]
_OF_TYPE: Final = {
    "VARCHAR": [*VALUES["texts"], "NULL::VARCHAR"],
    "JSON": [*VALUES["nested"], *VALUES["texts"]],
    "BLOB": VALUES["blobs"],
    "BIT": VALUES["bits"],
    "INTERVAL": VALUES["intervals"],
    "LAMBDA": VALUES["lambdas"],
    "AGGREGATE_STATE<?>": VALUES["states"],
    **dict.fromkeys(("STRUCT", "MAP(K, V)", "UNION", "VARIANT", "GEOMETRY", "UUID", "BOOLEAN"), VALUES["nested"]),
}
_NUMERIC: Final = ("INT", "DOUBLE", "FLOAT", "DECIMAL", "BIGNUM")
_ORDERED: Final = ("quantile", "percentile", "mode")
_FRAMES: Final = ("", "ORDER BY c0", "ORDER BY c0 ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE TIES")
_ROUND: Final = 25  # statements of each function, before it is the first one's turn again

_QUERY_S, _HANG_S = 1.0, 20.0
"""How long a statement may take before it is stopped, and before it counts as one that cannot be. Guesses."""
_MEMORY_BYTES: Final = 3 << 30
_MOST_KIB: Final = 1 << 20
"""That the process may ever have in memory, of which it has some 300 MB with nothing to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One overload of a function: how it is called, and the declared types of its parameters."""

    name: str
    kind: str  # scalar, aggregate, table, macro or table_macro
    types: tuple[str, ...]
    varargs: str | None = None


def functions(rows: Iterable[tuple[str, str, list[str] | None, list[str] | None, str | None]]) -> list[Function]:
    """Parse names, kinds, parameters, their types, and the type of variadic ones: macros have no types."""
    return [
        Function(
            name=name,
            kind=kind,
            types=tuple(types if types and all(types) else ["ANY"] * len(named or ())),
            varargs=more,
        )
        for name, kind, named, types, more in rows
        if kind != "pragma"  # which no SELECT can call
    ]


def calls(known: Iterable[Function], seed: int) -> Iterator[str]:
    """Yield endless statements that call every function, some of each in turn; the same for the same seed."""
    by_name: dict[str, list[Function]] = {}
    for function in known:
        by_name.setdefault(function.name, []).append(function)
    chosen = random.Random(seed)
    names = sorted(by_name)
    while True:
        chosen.shuffle(names)
        for name in names:
            for _ in range(_ROUND):
                function = chosen.choice(by_name[name])
                yield _statement(function, _arguments(function, chosen), chosen)


_LARGE: Final = [
    *("repeat('a', 1000000)", "repeat('ab', 500000)", "input", "input || name", "1000000", "1000000000", "'a'", "''"),
    *(
        "range(1000000)",
        "[input, input]",
        "list_transform(range(1000), lambda x: repeat('a', 1000))",
        "1e300",
        "'(a+)+$'",
    ),
    *("repeat('a', 1000000)::BLOB", "map([1], [input])", "{'a': input}", "repeat('[', 100000)", "'%a%a%a%a%a%a%b'"),
    *(
        "lambda x: repeat('a', 1000000)",
        "lambda x: list_transform(range(1000000), lambda y: x)",
        "repeat('1', 1000000)::BIT",
    ),
    *(
        "'%1000000d'",
        "'{:>1000000}'",
        "INTERVAL 1 MICROSECOND",
        "TIMESTAMP '2026-01-01'",
        "TIMESTAMP '1000-01-01'",
        "events",
    ),
]


def amplified(known: Iterable[Function], seed: int) -> Iterator[str]:
    """Yield endless statements that call every function with large arguments in turn; the same for the same seed."""
    chosen = random.Random(seed)
    all_functions = list(known)
    while True:
        chosen.shuffle(all_functions)
        for function in all_functions:
            name = '"' + function.name.replace('"', '""') + '"'
            many = len(function.types) + (chosen.choice((0, 1, 3)) if function.varargs else 0)
            call = f"{name}({', '.join(chosen.choice(_LARGE) for _ in range(many))})"
            if function.kind.startswith("table"):
                yield f"SELECT count(*) FROM {call}"
            else:
                yield f"SELECT {call} FROM {chosen.choice(('spans', 'spans, range(5000)', '(FROM spans LIMIT 1)'))}"


def _arguments(function: Function, chosen: random.Random) -> list[str]:
    types = list(function.types)
    if function.varargs:
        types += [function.varargs] * chosen.choice((0, 1, 1, 2, 3))
    if chosen.random() < 0.03:
        types = types[:-1] if chosen.random() < 0.5 else [*types, "ANY"]
    return [_argument(each, chosen) for each in types]


def _argument(kind: str, chosen: random.Random) -> str:
    luck = chosen.random()
    if luck < 0.07:
        return "NULL"
    if luck < 0.2:
        return chosen.choice(_ANY)
    if kind.endswith("]"):
        return chosen.choice(VALUES["lists"])
    if kind in _OF_TYPE:
        return chosen.choice(_OF_TYPE[kind])
    if kind.startswith(("DATE", "TIME")):
        return chosen.choice(VALUES["times"])
    if any(name in kind for name in _NUMERIC):
        return chosen.choice(VALUES["numbers"])
    return chosen.choice(_ANY)


def _statement(function: Function, arguments: list[str], chosen: random.Random) -> str:
    name = '"' + function.name.replace('"', '""') + '"'
    if function.kind.startswith("table"):
        if chosen.random() < 0.2:
            return f"SELECT * FROM {_rows(arguments, chosen)}, {name}({_columns(arguments)})"
        return f"SELECT * FROM {name}({', '.join(arguments)})"
    if function.kind == "aggregate":
        return _aggregated(name, arguments, chosen)
    match chosen.randrange(4):
        case 0:  # of columns, so that nothing is computed before there are rows
            where = chosen.choice(("", "WHERE false", "WHERE c0 IS NOT NULL"))
            return f"SELECT {name}({_columns(arguments)}) FROM {_rows(arguments, chosen)} {where}"
        case 1 if len(arguments) > 1:  # of a column and constants
            return f"SELECT {name}({', '.join(['c0', *arguments[1:]])}) FROM {_rows(arguments, chosen)}"
        case 2:
            return f"SELECT {name}({', '.join(arguments)}) AS v FROM range(3) GROUP BY v"
        case _:
            return f"SELECT {name}({', '.join(arguments)})"


def _aggregated(name: str, arguments: list[str], chosen: random.Random) -> str:
    arguments_text = ", ".join(["c0", *arguments[1:]] if arguments and chosen.random() < 0.7 else arguments)
    rows = _rows(arguments, chosen) if arguments else "range(3) AS t(c0)"
    distinct = "DISTINCT " if arguments_text and chosen.random() < 0.25 else ""
    order = chosen.choice(("", "", "", " ORDER BY c0 DESC"))
    call = f"{name}({distinct}{arguments_text}{order})"
    match chosen.randrange(7):
        case 0:
            return f"SELECT {call} FROM {rows} WHERE false"
        case 1:
            return f"SELECT {call} FILTER (c0 IS NOT NULL), count(*) FROM {rows} GROUP BY c0"
        case 2:
            return f"SELECT {call} OVER ({chosen.choice(_FRAMES)}) FROM {rows}"
        case 3 if any(each in name for each in _ORDERED):
            return f"SELECT {name}({arguments_text}) WITHIN GROUP (ORDER BY c0) FROM {rows}"
        case 4:
            return f"SELECT c0, {call} FROM {rows} GROUP BY GROUPING SETS ((c0), ())"
        case _:
            return f"SELECT {call} FROM {rows}"


def _columns(arguments: list[str]) -> str:
    return ", ".join(each if each in _LAMBDAS else f"c{place}" for place, each in enumerate(arguments))


def _rows(arguments: list[str], chosen: random.Random) -> str:
    """Return a table of the arguments: as they are, with a row of NULLs, or many times."""
    named = ", ".join(f"c{place}" for place in range(len(arguments))) or "c0"
    plain = ", ".join("NULL" if each in _LAMBDAS or each == "DEFAULT" else each for each in arguments) or "NULL"
    nothing = ", ".join("NULL" for _ in arguments) or "NULL"
    match chosen.randrange(3):
        case 0:
            return f"(VALUES ({plain})) AS t({named})"
        case 1:
            return f"(VALUES ({nothing}), ({plain}), ({plain})) AS t({named})"
        case _:
            return f"(SELECT {plain} FROM range(3)) AS t({named})"


@dataclass(slots=True)
class Outcomes:
    """The outcomes of statements: how many ended in each way, and those that must not be run."""

    ended: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[str, str]] = field(default_factory=list)  # how each ended, and the statement

    def note(self, statement: str, ended: str) -> None:
        """Add one."""
        self.ended[ended.partition(":")[0]] += 1
        if ended not in {"answered", "refused"}:
            self.bad.append((ended, statement))


class Asker:
    """The process; started again when it ended."""

    def __init__(self) -> None:
        self._process = self._start()

    def ask(self, statement: str) -> str:
        """Run the statement; return how it ended: answered, refused, `broke: …`, `escaped: …`, crashed or hung."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(statement) + "\n")
        stdin.flush()
        if select.select([stdout], [], [], _HANG_S)[0]:
            line = stdout.readline()
            if line:
                return str(json.loads(line))
            ended = "crashed"
        else:
            ended = "hung"
        self.close()
        ended = f"{ended}: {self._process.returncode}"
        self._process = self._start()
        return ended

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _start() -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", "from tests.nasty_calls import main; main()"]
        return forking.start(command, stdin=forking.PIPE, stdout=forking.PIPE, text=True, cwd=ROOT, env=environment())


def try_out(statements: Iterator[str], seconds: float) -> Outcomes:
    """Ask one after the other for so long."""
    outcomes, until_s = Outcomes(), time.monotonic() + seconds
    with Asker() as client_id:
        for statement in statements:
            if time.monotonic() > until_s:
                return outcomes
            outcomes.note(statement, client_id.ask(statement))
    return outcomes


def main() -> None:
    """Run the statements from standard input, one a line, on a store of its own."""
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    options = StoreOptions(database=DatabaseOptions(query_bytes=128 << 20))
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder), options) as store:
        commit(store, a_batch(_long_spans()))
        for number, line in enumerate(sys.stdin):
            ended = _ended(store, json.loads(line), str(number))
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _MOST_KIB
            print(json.dumps("grew" if grown else ended), flush=True)  # noqa: T201 - how it answers


def _long_spans() -> ExportTraceServiceRequest:
    request = an_export(3)
    for span in request.resource_spans[0].scope_spans[0].spans:
        span.attributes.add(key="input.value").value.string_value = "a" * 100_000
    return request


def _ended(store: Store, statement: str, client_id: str) -> str:
    before = store.queries.offences.count
    try:
        store.queries.sql(statement, max_rows=10, timeout_s=_QUERY_S, terms=QueryOptions(client_id=client_id))
    except BadQuery as error:
        return "refused" if store.queries.offences.count == before else f"broke: {error}"
    except Exception as error:  # noqa: BLE001 - the kind of error this program searches for
        return f"escaped: {type(error).__name__}: {error}"
    return "answered"
