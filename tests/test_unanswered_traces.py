"""A run that ended without an answer, on a server: lists, pages, SQL, rules and sessions show none and judge none."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from tests.conventions.making import a_resource, text
from tests.conventions.test_columnar import a_request
from tests.conventions.test_unanswered import ANSWER, WORDS, Run, unanswered_runs
from tests.live import a_client, until
from tests.offline import Offline, an_offline_server
from tests.serving import START_NS, post

ANSWERED, *LOST = (f"{number + 1:032x}" for number in range(3))
RUNS: Final = (
    Run(text("assistant", ANSWER)),
    unanswered_runs()["the last model failed"],
    unanswered_runs()["the last answer was not captured"],
)
RULES: Final = [
    {"name": f"{target} words", "target": target, "evaluator": "regex", "config": {"pattern": "order"}, **more}
    for target, more in (("TRACE", {}), ("SESSION", {"settle": 1}))
]


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Yield a server with two rules about the output, and sessions of an answered run and of one without an answer."""
    settings = {"settle_after_root_seconds": 0.1}
    with an_offline_server(tmp_path_factory.mktemp("unanswered") / "data", **settings) as server:
        assert server.running is not None
        for rule in RULES:
            server.ask("POST", "projects/shop/trace-eval-rules", 201, json=rule)
        for number, (trace_id, one) in enumerate(zip((ANSWERED, *LOST), RUNS, strict=True)):
            spans = [
                replace(
                    span,
                    trace_id=trace_id,
                    start_ns=START_NS + span.start_ns,
                    end_ns=START_NS + (span.end_ns or 0),
                    resource=a_resource(service_name="shop"),
                    attributes={**span.attributes, "session.id": f"s{number}"},
                )
                for span in one.spans
            ]
            post(f"http://{server.running.otlp_http}/v1/traces", a_request(spans).SerializeToString())
        until(lambda: server.sql("SELECT count(*) FROM evaluations"), lambda rows: rows == [[6]])
        yield server


def test_views_and_documents_have_no_output_of_a_run_without_an_answer(api: Offline) -> None:
    """The words before the call are the output neither in SQL nor in the document of the trace."""
    rows = api.sql("SELECT trace_id, output, final_response FROM traces ORDER BY trace_id")
    assert rows == [[ANSWERED, ANSWER, ANSWER], *([trace_id, None, None] for trace_id in LOST)]
    for trace_id in LOST:
        trace = api.ask("GET", f"traces/{trace_id}")
        assert (trace["output"], trace["finalResponse"]) == (None, None)


def test_pages_show_no_words_before_a_call_as_the_output(api: Offline) -> None:
    """The list of traces names a run without input by its answer, and not by the words before a call."""
    with a_client() as client:
        page = client.get(f"{api.url}/traces").text
        assert ANSWER in page
        assert WORDS not in page
        for trace_id in LOST:
            assert "not captured: output" in client.get(f"{api.url}/traces/{trace_id}").text


@pytest.mark.parametrize("target", ["TRACE", "SESSION"])
def test_rules_skip_a_run_without_an_answer(api: Offline, target: str) -> None:
    """The verdict on the answered run counts; the others have none, because their output was not captured."""
    statement = f"SELECT trace_id, outcome, reason FROM evaluations WHERE rule = '{target} words' ORDER BY trace_id"
    first, *others = api.sql(statement)
    assert first[:2] == [ANSWERED, "scored"]
    assert [[trace_id, outcome, reason.partition(" (")[0]] for trace_id, outcome, reason in others] == [
        [trace_id, "skipped", "not captured: output"] for trace_id in LOST
    ]
