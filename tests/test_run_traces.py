"""Spans of the items of experiments: how they are marked, read, asked for, and left out by rules."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, trace
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rules.marker import ITEM, RUN
from tests.live import until
from tests.offline import Offline, an_offline_server
from tests.serving import post, run
from tracejury import Client, Dataset, Example, Experiment, marking
from tracejury.marking import mark_spans

DOCUMENTED = Path(__file__).parent.parent / "docs" / "experiments.md"
RULE = """\
name: anything
conditions:
  - {field: name, op: "=", value: application}
evaluator: regex
config: {pattern: "."}
"""
MARKED = "  - {field: run_id, op: exists}\nevaluator"
ALL = "  - {field: run_id, op: exists, value: false}\n  - {field: item_key, op: exists, value: false}\nevaluator"


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("runs") / "data") as server:
        yield server


@pytest.fixture(name="spans")
def what_ends() -> Iterator[InMemorySpanExporter]:
    """Yield the spans of this process, which has a provider that marks."""
    if not hasattr(trace.get_tracer_provider(), "add_span_processor"):
        trace.set_tracer_provider(TracerProvider())
    provider: Any = trace.get_tracer_provider()
    exporter = InMemorySpanExporter()
    mark_spans()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    exporter.shutdown()


def attributes(spans: Sequence[ReadableSpan], name: str) -> list[Mapping[str, Any]]:
    """Return the attributes of the spans with this name."""
    return [span.attributes or {} for span in spans if span.name == name]


def experiment(client: Client | None, carried: list[str]) -> Any:
    """Return a run of two items, in whose task the application has a span."""

    def application(example: Example) -> str:
        with trace.get_tracer("app").start_as_current_span("application", attributes={"input.value": "a"}):
            carried.append(json.dumps(dict(baggage.get_all())))
            return str(example.inputs["input"])

    cases = Dataset("two", [Example(id="first", inputs={"input": "x"}), Example(id="second", inputs={"input": "y"})])
    return Experiment("marked", cases, application, [lambda _, outputs: bool(outputs)], client=client).run()


def test_spans_of_an_item_are_told_from_those_of_production(
    server: Offline, spans: InMemorySpanExporter, tmp_path: Path
) -> None:
    """Spans below an item bear run and key, SQL and lists find them, and rules pass them over unless asked."""
    carried: list[str] = []
    with (
        closing(Client(server.url)) as client,
        trace.get_tracer("app").start_as_current_span("application", attributes={"input.value": "a"}),
    ):
        result = experiment(client, carried)
    ended = spans.get_finished_spans()
    marks = [(each.get(RUN), each.get(ITEM)) for each in attributes(ended, "application")]
    assert marks == [(result.run_id, "first"), (result.run_id, "second"), (None, None)]
    assert attributes(ended, "experiment marked")[0][RUN] == result.run_id
    assert all(result.run_id in text and "first" not in text for text in carried)

    post(f"{server.url}/api/v1/traces", encode_spans(ended).SerializeToString())
    query = "SELECT run_id, item_key FROM spans WHERE name = 'application' ORDER BY item_key NULLS LAST"
    rows = until(partial(server.sql, query), lambda stored: len(stored) == 3)
    assert rows == [[result.run_id, "first"], [result.run_id, "second"], [None, None]]
    (item, *_) = server.ask("GET", f"runs/{result.run_id}")["items"]["content"]
    traces = server.ask("GET", "traces", params={"attribute": f"{RUN}={result.run_id}"})["content"]
    assert item["traceId"] in {each["traceId"] for each in traces}
    shown = server.ask("GET", f"traces/{item['traceId']}")["spans"]
    assert {(each["runId"], each["itemKey"]) for each in shown if each["name"] == "application"} >= {
        (result.run_id, item["itemKey"])
    }

    rule = tmp_path / "rule.yaml"
    for text, matched in (
        (RULE, 1),
        (RULE.replace("evaluator", MARKED, 1), 2),
        (RULE.replace("evaluator", ALL, 1), 1),
    ):
        rule.write_text(text, encoding="utf-8")
        document = json.loads(run("rules", "test", rule, "--server", server.url, "--json").stdout)
        decided = [(each["decision"], each["count"]) for each in document["decisions"]]
        assert decided[-1] == ("matched", matched), document
        passed_over = [each["count"] for each in document["decisions"] if "run_id" in (each["why"] or "")]
        assert sum(passed_over) == 3 - matched, document


def test_what_an_item_cost_is_told_by_its_spans(server: Offline, spans: InMemorySpanExporter) -> None:
    """If the application recorded usage and model but no cost, the server's prices give each item's cost and source."""
    usage = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-5-mini", "gen_ai.provider.name": "openai"}
    tokens = {"gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 100_000}

    def application(example: Example) -> str:
        calls = 1 if example.id == "first" else 3
        for _ in range(calls):
            with trace.get_tracer("app").start_as_current_span("chat", attributes={**usage, **tokens}):
                pass
        return "answer"

    cases = Dataset("two", [Example(id=name, inputs={"input": name}) for name in ("first", "second")])
    with closing(Client(server.url)) as client:
        result = Experiment("priced", cases, application, [lambda _, outputs: bool(outputs)], client=client).run()
    post(f"{server.url}/api/v1/traces", encode_spans(spans.get_finished_spans()).SerializeToString())
    (statement,) = re.findall(
        "```sql\n(/\\* the cost of each item.*?)```", DOCUMENTED.read_text(encoding="utf-8"), re.DOTALL
    )
    query = statement.replace("'019…'", f"'{result.run_id}'")
    rows = until(partial(server.sql, query), lambda stored: sum(row[2] or 0 for row in stored) == 4)
    source = rows[0][4]
    assert source.startswith("prices of 20")
    assert rows == [
        ["first", 1, 1, pytest.approx(0.25 + 0.2), source],
        ["second", 1, 3, pytest.approx(3 * (0.25 + 0.2)), source],
    ]
    run_document = server.ask("GET", f"runs/{result.run_id}")
    assert (run_document["pricedItemCount"], run_document["costUsd"]) == (0, None)


def test_an_experiment_without_a_server_marks_its_items_too(spans: InMemorySpanExporter) -> None:
    """Without a run there is the key, by which rules know it, and nothing is carried to others."""
    carried: list[str] = []
    experiment(None, carried)
    ended = spans.get_finished_spans()
    assert [(each.get(RUN), each.get(ITEM)) for each in attributes(ended, "application")] == [
        (None, "first"),
        (None, "second"),
    ]
    assert carried == ["{}", "{}"]


def test_the_marks_are_one_name_in_both_halves() -> None:
    """The SDK writes the marks under the names that the server and its rules read."""
    assert (marking.RUN, marking.ITEM) == (RUN, ITEM)
