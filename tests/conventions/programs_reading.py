"""Payloads of real programs through the real decoder and a real store, and how many of their fields are read right."""

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS, TRACES, Signal
from storage.ingest.batch import SpanBatch
from storage.store import Store
from tests.corpus.record import otlp_json
from tests.matching import adding_up
from tests.storing import RECEIVED_AT_US, a_store, commit

CORPUS = Path(__file__).parent.parent / "corpus"
OF_NOVEMBER = "programs-2026-11"
_EXPECTED = ".expected.json"
PROGRAMS: Mapping[str, Path] = {
    path.name.removesuffix(_EXPECTED): path.parent
    for folder in ("programs", OF_NOVEMBER)
    for path in sorted((CORPUS / folder).glob(f"*{_EXPECTED}"))
}
"""The folder of each recording, by its name."""

WRONG: Mapping[str, int] = tomllib.loads((CORPUS / "wrong_fields.toml").read_text(encoding="utf-8"))
"""How many fields of a recording are not read right; of all others none."""

WAIT_S = 100.0
_ABOUT_SPANS = frozenset({"name", "misread"})
_TRACES: tuple[type[Any], Signal] = (ExportTraceServiceRequest, TRACES)
_LOGS: tuple[type[Any], Signal] = (ExportLogsServiceRequest, LOGS)


class Score(NamedTuple):
    """The number of correctly read fields of a recording, the number of claimed fields, and the mistakes."""

    right: int
    fields: int
    mistakes: Sequence[str]


@contextmanager
def a_store_of_programs(directory: Path, programs: Mapping[str, Path] = PROGRAMS) -> Iterator[Store]:
    """Open a store of all recordings, each a tenant, their log records last, with all traces summed."""
    with a_store(directory) as store, adding_up(store) as traces:
        commit(store, *(_part(folder / f"{name}.json", name) for name, folder in programs.items()))
        assert traces.wait_idle(WAIT_S)
        logs = {name: folder / f"{name}.logs.json" for name, folder in programs.items()}
        if logged := [_part(file, name) for name, file in logs.items() if file.exists()]:
            commit(store, *logged)
            assert traces.wait_idle(WAIT_S)
        yield store


def expectation(name: str, programs: Mapping[str, Path] = PROGRAMS) -> dict[str, Any]:
    """Load the expectation of a recording."""
    document: dict[str, Any] = json.loads((programs[name] / f"{name}{_EXPECTED}").read_text(encoding="utf-8"))
    return document


def score_of(store: Store, name: str, programs: Mapping[str, Path] = PROGRAMS) -> Score:
    """Compare the reading of a recording with its expectation."""
    expected = expectation(name, programs)
    spans = {row["span_id"]: row for row in _records(store, "spans", name)}
    (trace,) = (row for row in _records(store, "traces", name) if row["trace_id"] == expected["trace_id"])
    calls = [row for row in _records(store, "tool_calls", name) if row["trace_id"] == expected["trace_id"]]
    trace["tool_calls"] = [_call(row) for row in sorted(calls, key=lambda row: row["ordinal"])]
    right, mistakes = 0, []
    claimed = [(f"{claims['name']} {span_id}", claims, spans[span_id]) for span_id, claims in expected["spans"].items()]
    for where, claims, row in [*claimed, ("trace", expected["trace"], trace)]:
        for field, claim in claims.items():
            if field in _ABOUT_SPANS:
                continue
            read = read_field(row, field)
            if _holds(field, claim, read):
                right += 1
            else:
                mistakes.append(f"{where}: {field} is {read!r}, not {claim!r}")
    return Score(right, right + len(mistakes), mistakes)


def rows_of(scores: Mapping[str, Score]) -> list[str]:
    """Return the rows of the page of programs: one of each recording, and of those of November one of each program."""
    together: dict[tuple[Path, str], list[str]] = {}
    for name in scores:
        folder = PROGRAMS[name]
        program = name.rsplit(".", 2)[0] if folder.name == OF_NOVEMBER else name
        together.setdefault((folder, program), []).append(name)
    rows = []
    for (_, program), names in together.items():
        libraries = sorted({library for name in names for library in expectation(name)["library"]})
        rows.append(f"| `{program}` | {', '.join(libraries)} | {total([scores[name] for name in names])} |")
    return rows


def total(scores: Sequence[Score]) -> str:
    """Say how many fields of several recordings are read right."""
    return f"{sum(score.right for score in scores)} of {sum(score.fields for score in scores)}"


def read_field(row: Mapping[str, Any], field: str) -> Any:
    """Return a field of an expectation, out of a row of the views."""
    match field:
        case "input_contains" | "output_contains":
            return row[field.removesuffix("_contains")]
        case "system":
            messages = _json(row["input_messages"]) or []
            texts = [part for message in messages if message["role"] == "system" for part in message["parts"]]
            return "\n\n".join(str(part.get("content")) for part in texts)
        case "input_roles":
            return [message["role"] for message in _json(row["input_messages"]) or []]
        case "input_tool_calls" | "output_tool_calls":
            return _parts(row, field.removesuffix("_tool_calls"), "tool_call")
        case "input_tool_results":
            return _parts(row, "input", "tool_call_response")
        case "output_reasoning":
            return "\n".join(str(part.get("content")) for part in _parts(row, "output", "reasoning"))
        case "tool_definitions":
            return [tool["name"] for tool in _json(row["tool_definitions"]) or []]
        case "tool_arguments":
            return _json(row[field])
        case _:
            return row[field]


def _call(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "arguments": _json(row["arguments"])}


def _parts(row: Mapping[str, Any], side: str, kind: str) -> list[dict[str, Any]]:
    messages = _json(row[f"{side}_messages"]) or []
    return [
        part for message in messages for part in message["parts"] if isinstance(part, dict) and part.get("type") == kind
    ]


def _holds(field: str, claim: Any, read: Any) -> bool:
    if field in ("input_contains", "output_contains"):
        return isinstance(read, str) and all(text in read for text in claim)
    if field in ("error", "output_reasoning"):
        return isinstance(read, str) and str(claim) in read
    if field in ("tool_result", "response", "result"):
        return bool(_as_json(claim) == _as_json(read))
    if isinstance(claim, list) and claim and isinstance(claim[0], dict):
        return len(claim) == len(read) and all(
            all(name in other and _holds(name, item, other[name]) for name, item in one.items())
            for one, other in zip(claim, read, strict=True)
        )
    if isinstance(claim, float) and isinstance(read, int | float):
        return abs(claim - read) <= 1e-6 * max(1.0, abs(claim))
    if isinstance(claim, str) and isinstance(read, str):
        return claim.split() == read.split() if field == "system" else claim.strip() == read.strip()
    return bool(claim == read)


def _as_json(value: Any) -> Any:
    # A program passes the same result on in both forms: as JSON, and as text.
    if isinstance(value, str):
        with suppress(ValueError):
            return json.loads(value)
    return value


def _json(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _part(file: Path, tenant: str) -> SpanBatch:
    kind, signal = _LOGS if file.name.endswith(".logs.json") else _TRACES
    request = otlp_json.loads(file.read_text(encoding="utf-8"), kind)
    sent = Request(body=request.SerializeToString(), tenant=tenant, signal=signal)
    return decode([sent], received_at_us=RECEIVED_AT_US).batch


def _records(store: Store, view: str, tenant: str) -> list[dict[str, Any]]:
    table = store.queries.sql(f"FROM {view} WHERE tenant = '{tenant}'", max_rows=10_000, timeout_s=60)
    names = [column.name for column in table.columns]
    return [dict(zip(names, row, strict=True)) for row in table.rows]


def report(scores: Mapping[str, Score]) -> Iterator[str]:
    """Yield the mistakes in each recording, the lines of the data file, and the rows of the page of programs."""
    for name, score in scores.items():
        yield from (f"{name}: {mistake[:400]}" for mistake in score.mistakes)
    yield from (f'"{name}" = {len(score.mistakes)}' for name, score in scores.items() if score.mistakes)
    yield from rows_of(scores)
    yield f"in all, {total([*scores.values()])} fields are right; of November's"
    yield total([score for name, score in scores.items() if PROGRAMS[name].name == OF_NOVEMBER])


def main() -> None:
    """Print how well each recording is read."""
    with TemporaryDirectory() as directory, a_store_of_programs(Path(directory) / "data") as store:
        scores = {name: score_of(store, name) for name in PROGRAMS}
    print("\n".join(report(scores)))  # noqa: T201 - how it answers


if __name__ == "__main__":
    main()
