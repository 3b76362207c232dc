"""The corpus holds what it claims: lossless payloads, nothing of the recording machine, and facts that exist."""

import ast
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.corpus.record import otlp_json
from tests.corpus.record.__main__ import EVERYTHING, FOLDER, RECIPES

CORPUS = Path(__file__).parent
SCENARIOS = sorted(path.parent for path in CORPUS.glob("*/*/expected.json"))
PAYLOADS = sorted(CORPUS.glob("*/*/traces.json")) + sorted(CORPUS.glob("*/*/logs.json"))
HAND_WRITTEN = {"spring-ai", "langchain4j"}
CORPUS_BYTES = 3_000_000  # of the brief for it
# Paths and names of the machine or its people, and keys that would bring them.
PRIVATE = re.compile(r'/work/|/root/|/home/|/tmp/|/Users/|"host\.|"process\.|"os\.|sk-\w|@\w+\.com')
CLAIMS_OF_OURS = {"name", "kind", "dialect", "role", "type", "modality", "unclaimed"}
SUBSTRINGS = {"error", "input_contains", "output_contains"}  # the rest is on the span letter by letter
OBJECT = re.compile(r"[A-Za-z_]\w*[(=]")
LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|(?<![\w.])\d+(?![\w.])""")
each_scenario = pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: f"{p.parent.name}/{p.name}")
each_payload = pytest.mark.parametrize("path", PAYLOADS, ids=lambda p: f"{p.parts[-3]}/{p.parts[-2]}/{p.stem}")


@each_payload
def test_payload_is_the_request_that_was_sent(path: Path) -> None:
    """The text reads as the protobuf request and back without losing a field."""
    kind: type[Message] = ExportTraceServiceRequest if path.stem == "traces" else ExportLogsServiceRequest
    text = path.read_text(encoding="utf-8")
    assert json.loads(otlp_json.dumps(otlp_json.loads(text, kind))) == json.loads(text)


@each_payload
def test_payload_tells_nothing_of_the_machine_that_recorded(path: Path) -> None:
    """No path, host name, process attribute or key of the recording machine is in it."""
    assert PRIVATE.findall(path.read_text(encoding="utf-8")) == []


@each_scenario
def test_expectation_lists_the_spans_of_the_payload(folder: Path) -> None:
    """The spans are those of the payload in the order they start, and all of one trace."""
    recorded = spans(folder)
    assert [span["name"] for span in expected(folder)["spans"]] == [span["name"] for span in recorded]
    assert len({span["traceId"] for span in recorded}) == 1


@each_scenario
def test_expectation_claims_only_what_the_payload_says(folder: Path) -> None:
    """Every text and number that must be read of a span is on it, in its events, or in its logs."""
    missing = []
    for claims, span in zip(expected(folder)["spans"], spans(folder), strict=True):
        texts = {str(value).casefold() for value in leaves([span, logs_of(folder, span["spanId"])])}
        for key, value in claims.items():
            if key in SUBSTRINGS:
                missing += [(span["name"], key, value)] * (value.casefold() not in "\n".join(texts))
            elif key not in CLAIMS_OF_OURS:
                missing += [(span["name"], key, one) for one in leaves(value) if str(one).casefold() not in texts]
    assert missing == []


def test_corpus_is_small() -> None:
    """All payloads together stay below the bound."""
    assert sum(path.stat().st_size for path in CORPUS.glob("*/*/*.json")) < CORPUS_BYTES


def expected(folder: Path) -> dict[str, Any]:
    """Load the expectation of a scenario."""
    document: dict[str, Any] = json.loads((folder / "expected.json").read_text(encoding="utf-8"))
    return document


def spans(folder: Path) -> list[dict[str, Any]]:
    """Return the spans of a scenario: each before those below it, and siblings in the order they start."""
    request = json.loads((folder / "traces.json").read_text(encoding="utf-8"))
    spans_sent = [s for r in request["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]
    spans_sent.sort(key=lambda span: int(span["startTimeUnixNano"]))
    known = {span["spanId"] for span in spans_sent}
    below: dict[str | None, list[dict[str, Any]]] = {}
    for span in spans_sent:
        parent = span.get("parentSpanId")
        below.setdefault(parent if parent in known else None, []).append(span)
    return list(_walk(below, None))


def _walk(below: dict[str | None, list[dict[str, Any]]], parent: str | None) -> Iterator[dict[str, Any]]:
    for span in below.get(parent, []):
        yield span
        yield from _walk(below, span["spanId"])


def logs_of(folder: Path, span_id: str) -> list[dict[str, Any]]:
    """Return the log records of one span."""
    path = folder / "logs.json"
    request = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"resourceLogs": []}
    records = [log for r in request["resourceLogs"] for scope in r["scopeLogs"] for log in scope["logRecords"]]
    return [log for log in records if log.get("spanId") == span_id]


def leaves(value: Any) -> Iterator[Any]:
    """Yield every value in a tree; JSON or Python literals in a text are decoded, their text kept too."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in CLAIMS_OF_OURS or not isinstance(item, str):
                yield from leaves(item)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield value
        if isinstance(value, str) and value[:1] in {"{", "[", '"'}:
            yield from _opened(value)
        elif isinstance(value, str) and OBJECT.match(value):
            yield from (leaf for text in LITERAL.findall(value) for leaf in leaves(ast.literal_eval(text)))


def _opened(text: str) -> Iterator[Any]:
    for read in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError):
            yield from leaves(read(text))
            return


def test_every_recorded_dialect_can_be_recorded_again() -> None:
    """The one command knows each folder, its script and the file that pins its libraries."""
    assert {folder.parent.name for folder in SCENARIOS} - HAND_WRITTEN == RECIPES.keys()
    for recipe in EVERYTHING.values():
        assert (FOLDER / f"{recipe.script}.py").exists()
        assert (FOLDER / recipe.packages).exists()
