"""Readings of spans that each library recorded agree with what the application did."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.conventions.own_keys import NO_KEYS
from collector.conventions.span import read_span
from collector.conventions.trace import read_trace
from storage.store import Store
from tests.conventions.corpus_reading import (
    SCENARIOS,
    expected,
    in_order,
    load_corpus,
    logs_of,
    span_mistakes,
    stored_spans,
    trace_mistakes,
)
from tests.storing import a_store

pytestmark = pytest.mark.costly("collector/conventions", "collector/otlp", "collector/reading", "storage/ingest")

each_scenario = pytest.mark.parametrize("folder", SCENARIOS, ids=lambda p: f"{p.parent.name}/{p.name}")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store that holds the corpus."""
    with a_store(tmp_path_factory.mktemp("corpus") / "data") as store:
        load_corpus(store)
        yield store


@each_scenario
def test_recorded_spans_are_read_as_what_the_application_did(store: Store, folder: Path) -> None:
    """Every claim about a span holds, and fields that no attribute holds are null."""
    spans = stored_spans(store, folder)
    reading = read_trace(spans, logs_of(folder), NO_KEYS)
    claims = expected(folder)["spans"]
    mistakes = []
    for claim, span in zip(claims, in_order(folder, spans), strict=True):
        mistakes += span_mistakes(claim, reading.spans[span.span_id])
    assert mistakes == []


@each_scenario
def test_recorded_traces_are_read_as_what_the_application_did(store: Store, folder: Path) -> None:
    """Calls, answer, session and totals of every recorded trace are those of the application."""
    reading = read_trace(stored_spans(store, folder), logs_of(folder), NO_KEYS)
    assert trace_mistakes(expected(folder)["trace"], reading) == []


@each_scenario
def test_the_reading_of_a_span_does_not_depend_on_its_trace(store: Store, folder: Path) -> None:
    """The reading of a span in its trace is that of the span alone, with its own log records."""
    spans, logs = stored_spans(store, folder), logs_of(folder)
    readings = read_trace(spans, logs, NO_KEYS).spans
    for span in spans:
        own_logs = [log for log in logs if log.span_id == span.span_id]
        assert read_span(span, own_logs, NO_KEYS) == readings[span.span_id]
