"""Scores of external evaluators: `gen_ai.evaluation.result` events, through every listener."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.app import Running
from storage.store import Store
from tests.access import request
from tests.log_requests import a_log, a_log_batch, a_log_export, logs_as_json
from tests.serving import a_server, post, run
from tests.storing import a_batch, a_store, an_export, commit, rows, span_id, trace_id

EVENT = "gen_ai.evaluation.result"
QUERY = """
    SELECT span_id, name, outcome, score, passed, label, reason, error_kind FROM evaluations WHERE origin = 'external'
"""


def a_score(name: str, value: float | None = None, more: Mapping[str, str] = MappingProxyType({})) -> LogRecord:
    """Build an event about the first span of the first trace; `more` are attributes."""
    attributes = [KeyValue(key="gen_ai.evaluation.name", value=AnyValue(string_value=name))]
    if value is not None:
        attributes.append(KeyValue(key="gen_ai.evaluation.score.value", value=AnyValue(double_value=value)))
    attributes += [KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in more.items()]
    return a_log(event_name=EVENT, attributes=attributes)


LABEL, WHY = "gen_ai.evaluation.score.label", "gen_ai.evaluation.explanation"


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_score_is_an_evaluation_whenever_it_comes(tmp_path: Path, order: str) -> None:
    """A score is one evaluation, before or after its span and however often it is sent; no other trace changes."""
    scores = a_log_batch(a_log_export(a_score("tone", 0.25, {LABEL: "Fail", WHY: "rude"}), project="evals"))
    spans = a_batch(an_export(1))
    with a_store(tmp_path) as store:
        for batch in (scores, spans) if order == "before" else (spans, scores):
            commit(store, batch, scores)
        (row,) = rows(store, QUERY)
        assert row == (span_id(0), "tone", "scored", 0.25, False, "Fail", "rude", None)
        assert rows(store, "SELECT project, rule, number, counted, superseded FROM evaluations") == [
            ("evals", None, None, False, False)
        ]
        (score,) = store.judgements.of_trace(trace_id(0)).external_scores
        assert (score.name, score.score, score.passed, score.span_id) == ("tone", 0.25, False, span_id(0))
        assert set(store.trace_meanings.changes.take()[0]) <= {("", trace_id(0))}


CASES: Mapping[str, tuple[LogRecord, tuple[object, ...]]] = {
    "a label alone": (a_score("a", more={LABEL: "correct"}), ("scored", None, True, "correct")),
    "a label with blanks": (a_score("a", more={LABEL: " Pass "}), ("scored", None, True, " Pass ")),
    "a label of its own": (a_score("a", 4.0, {LABEL: "good"}), ("scored", 4.0, None, "good")),
    "an error": (a_score("a", more={"error.type": "timeout"}), ("failed", None, None, None)),
    "nothing": (a_score("a"), ("skipped", None, None, None)),
    "no number": (a_score("a", float("nan")), ("failed", None, None, None)),
    "an infinite number": (a_score("a", float("-inf"), {LABEL: "pass"}), ("failed", None, None, "pass")),
    "an error beside a score": (a_score("a", 1.0, {LABEL: "pass", "error.type": "x"}), ("failed", None, None, "pass")),
    "a text as score": (a_score("a", more={"gen_ai.evaluation.score.value": "high"}), ("failed", None, None, None)),
    "an error as label": (a_score("a", more={LABEL: "Error"}), ("failed", None, None, "Error")),
    "NaN as label": (a_score("a", more={LABEL: "NaN"}), ("failed", None, None, "NaN")),
    "a skip as label": (a_score("a", more={LABEL: "skipped"}), ("skipped", None, None, "skipped")),
    "an error as label of a score": (a_score("a", 0.0, {LABEL: "error"}), ("scored", 0.0, None, "error")),
    "an exception beside a score": (a_score("a", 1.0, {"exception.type": "y"}), ("failed", None, None, None)),
    "a number as text": (a_score("a", more={"gen_ai.evaluation.score.value": "0.5"}), ("scored", 0.5, None, None)),
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield a store with one event of each kind, a trace each."""
    records = [LogRecord() for _ in CASES]
    for number, (record, (expected, _)) in enumerate(zip(records, CASES.values(), strict=True)):
        record.CopyFrom(expected)
        record.trace_id = bytes.fromhex(trace_id(number))
    with a_store(Path(tmp_path_factory.mktemp("said"))) as opened:
        commit(opened, a_log_batch(a_log_export(*records)))
        yield opened


@pytest.mark.parametrize("number", range(len(CASES)), ids=list(CASES))
def test_what_an_event_says_is_what_its_row_says(store: Store, number: int) -> None:
    """A common label is a verdict, errors and non-numeric values are failures, and an empty event is a skip."""
    (_, expected) = list(CASES.values())[number]
    statement = f"SELECT outcome, score, passed, label FROM evaluations WHERE trace_id = '{trace_id(number)}'"
    assert rows(store, statement) == [expected]


def test_an_event_about_a_session_is_an_annotation_of_it(tmp_path: Path) -> None:
    """The view `annotations` has the target that the event names."""
    targets = [{"tracejury.target": "session", "session.id": "chat"}, {"tracejury.target": "trace"}, {}]
    with a_store(tmp_path) as store:
        commit(store, a_log_batch(a_log_export(*(a_score(f"{at}", 1.0, of) for at, of in enumerate(targets)))))
        annotations = rows(store, "SELECT target, session_id, span_id FROM annotations ORDER BY name")
    assert annotations == [("session", "chat", None), ("trace", None, None), ("span", None, span_id(0))]


def test_a_failed_event_says_why(store: Store) -> None:
    """The error kind is the event's, `not_a_number` for a score that is none, and `error` for a label that says so."""
    kinds = rows(store, "SELECT error_kind, count(*) FROM evaluations WHERE outcome = 'failed' GROUP BY 1 ORDER BY 1")
    assert kinds == [("error", 1), ("not_a_number", 4), ("timeout", 1), ("x", 1), ("y", 1)]


def test_what_came_from_here_is_no_score_from_elsewhere(tmp_path: Path) -> None:
    """A server that is sent its own results shows each of them once; those of another server are scores."""
    with a_store(tmp_path) as store:
        ((own,),) = rows(store, "SELECT instance FROM results_out")
        ours = a_score("ours", 1.0, {"tracejury.instance": str(own)})
        theirs = a_score("theirs", 1.0, {"tracejury.instance": "another", "tracejury.target": "trace"})
        commit(store, a_log_batch(a_log_export(ours, theirs)))
        assert [row[:2] for row in rows(store, QUERY)] == [(None, "theirs")]
        assert rows(store, "SELECT metadata FROM evaluations") == [
            (json.dumps({"tracejury.instance": "another", "tracejury.target": "trace"}, separators=(",", ":")),)
        ]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Yield a server with a trace of one span."""
    with a_server(tmp_path_factory.mktemp("data")) as running:
        post(f"http://{running.otlp_http}/v1/traces", an_export(1).SerializeToString())
        yield running


def through_http(server: Running, export: ExportLogsServiceRequest) -> None:
    """Send protobuf over HTTP."""
    post(f"http://{server.otlp_http}/v1/logs", export.SerializeToString())


def through_json(server: Running, export: ExportLogsServiceRequest) -> None:
    """Send JSON over HTTP."""
    headers = {"content-type": "application/json"}
    answer = request(f"http://{server.otlp_http}/v1/logs", "POST", content=logs_as_json(export), headers=headers)
    assert answer.status_code == 200


def through_grpc(server: Running, export: ExportLogsServiceRequest) -> None:
    """Send protobuf over gRPC."""
    with grpc.insecure_channel(server.grpc) as channel:
        LogsServiceStub(channel).Export(export, timeout=20)  # type: ignore[no-untyped-call] # generated


def test_every_door_takes_scores_and_everybody_sees_them(server: Running) -> None:
    """An event sent through all three listeners is one score, in SQL, in the trace's JSON and on the terminal."""
    export = a_log_export(a_score("faithful", 0.75, {LABEL: "pass", WHY: "all of it is in the context"}))
    for through in (through_http, through_json, through_grpc):
        through(server, export)
    assert server.store.wait_committed(20)
    assert len(rows(server.store, QUERY)) == 1
    document = request(f"http://{server.http}/api/v1/traces/{trace_id(0)}").json()
    (score,) = document["spans"][0]["externalScores"]
    assert (score["name"], score["score"], score["passed"], score["project"]) == ("faithful", 0.75, True, "shop")
    assert document["externalScores"] == []
    shown = run("traces", "show", trace_id(0), "--server", f"http://{server.http}")
    assert "faithful (from elsewhere): pass, 0.75; all of it is in the context" in " ".join(shown.output.split())


def test_a_failed_event_is_no_verdict_on_any_face(server: Running) -> None:
    """Terminal, JSON and page show that a failed event is not a verdict, and the terminal does not show its label."""
    failed = [
        a_score("nan", float("nan"), {LABEL: "pass"}),
        a_score("broke", more={"error.type": "Timeout"}),
    ]
    through_http(server, a_log_export(*failed))
    assert server.store.wait_committed(20)
    place = ("--server", f"http://{server.http}")
    shown = " ".join(run("traces", "show", trace_id(0), *place).output.split())
    assert "nan (from elsewhere): no verdict (not_a_number)" in shown
    assert "broke (from elsewhere): no verdict (Timeout)" in shown
    listed = json.loads(run("annotations", "list", "--trace", trace_id(0), "--json", *place).output)
    assert {each["name"]: each["errorKind"] for each in listed if each["errorKind"]} == {
        "nan": "not_a_number",
        "broke": "Timeout",
    }
    table = run("annotations", "list", "--trace", trace_id(0), "--name", "nan", *place).output
    assert ("verdict" in table, "pass" in table) == (True, False)
    page = request(f"http://{server.http}/traces/{trace_id(0)}?span={span_id(0)}").text
    assert page.count("no verdict") >= len(failed)
    assert "None" not in page
