"""What the server tells of itself."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.live.sweeper import Sweeper
from collector.logs import JsonLines, TextLines, request_id
from collector.meters import Meter, exposition
from storage.jobs import Result, Turn
from storage.timing import Stopwatch
from tests import storing
from tests.access import request
from tests.alerting import a_finding
from tests.live import ANY_PORTS, a_live_server, until
from tests.serving import a_server, an_export
from tests.source_tree import ROOT
from tests.storing import RECEIVED_AT_US, a_batch, a_store, commit, span_id, trace_id
from tests.working import Book

README = (ROOT / "README.md").read_text(encoding="utf-8")


PROMISED = set(re.findall(r"`((?:tracejury|process)_\w+)`", README.partition("**Metrics.**")[2].partition("## ")[0]))


def samples(text: str) -> dict[str, float]:
    """The samples of an exposition, as the parser of Prometheus' own client reads them."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> str:
    """What a sample is called."""
    return f"{name}{sorted(labels.items())}"


def test_the_numbers_follow_what_happens(tmp_path: Path) -> None:
    """Spans that come are counted by what became of them, and the numbers are those that the README promises."""
    headers = {"content-type": "application/x-protobuf"}
    export = an_export("a" * 32, "one", "two")
    export.resource_spans[0].scope_spans[0].spans.add(name="no ids")
    with a_server(tmp_path / "data", results_endpoint="http://127.0.0.1:9/v1/logs") as server:
        url = f"http://{server.http}/api/v1/traces"
        for _ in range(2):
            assert request(url, "POST", content=export.SerializeToString(), headers=headers).status_code == 200
        assert server.store.wait_committed(10)
        assert server.reader.wait_read(20)
        assert server.pipeline.matcher.wait_matched(20)
        server.context.sweeper.sweep()
        answer = request(f"http://{server.http}/metrics")
        found = samples(answer.text)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name, labels, value in (
        ("tracejury_received_total", {"kind": "span", "outcome": "accepted"}, 4),
        ("tracejury_received_total", {"kind": "span", "outcome": "rejected"}, 2),
        ("tracejury_stored_total", {"outcome": "stored"}, 2),
        ("tracejury_stored_total", {"outcome": "already_present"}, 2),
        ("tracejury_unread_spans", {}, 0),
        ("tracejury_unmatched_spans", {}, 0),
        ("tracejury_matching_lag_seconds", {}, 0),
        ("tracejury_queue_bytes", {}, 0),
        ("tracejury_backlog_bytes", {}, 0),
        ("tracejury_commits_failing", {}, 0),
        ("tracejury_jobs", {"state": "claimed"}, 0),
        ("tracejury_alerts", {"state": "open"}, 0),
        ("tracejury_webhook_deliveries", {"state": "failed"}, 0),
        ("tracejury_sweeps_total", {"outcome": "done"}, 1),
        ("tracejury_swept_spans_total", {}, 0),
        ("tracejury_results_untold", {}, 0),
        ("tracejury_judge_seconds_count", {}, 0),
    ):
        assert found[sample(name, **labels)] == value, name
    commits = found[sample("tracejury_commit_seconds_count")]
    assert commits == found[sample("tracejury_commit_seconds_bucket", le="+Inf")] >= 2
    assert found[sample("tracejury_commit_seconds_sum")] > 0
    assert found[sample("tracejury_disk_free_bytes")] > found[sample("tracejury_database_bytes")] > 0
    assert found[sample("tracejury_disk_bytes", part="spool")] > 0
    assert set(re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", answer.text, re.MULTILINE)) == PROMISED


def test_jobs_alerts_and_results_are_counted_by_their_state(tmp_path: Path) -> None:
    """What waits, what is done, and what nobody has looked at; a look is kept for the numbers of one scrape."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(storing.an_export(2)))
        book = Book(store)
        book.enqueue(book.rule("check", evaluator="tool_error"), [(trace_id(0), span_id(0)), (trace_id(0), span_id(1))])
        done = Result(job_id=1, name="x", outcome="scored", score=1.0, passed=True, fingerprint="f")
        store.jobs.take_turn(Turn(now_us=1, until_us=2, finished=[done]))
        assert store.alerts.open(a_finding(), RECEIVED_AT_US * 1000)
        standing = store.gauges.look()
        assert (standing.unread.spans, standing.unmatched.spans) == (2, 0)
        assert standing.unread.seconds >= 0
        assert standing.jobs == {"ready": 1, "waiting": 0, "claimed": 0}
        assert standing.alerts == {"open": 1, "acknowledged": 0}
        assert (standing.results, standing.unwatched_results, standing.untold_results) == (1, 1, 1)
        assert store.gauges.look() is standing


def test_what_sweeps_take_away_is_added_up(tmp_path: Path) -> None:
    """Over all sweeps since the start, whoever asked for them."""
    with a_store(tmp_path) as store:
        sweeper = Sweeper(store.retention, interval_s=3600, max_bytes=None, now_us=lambda: 1 << 52)
        for trace in range(2):
            commit(store, a_batch(storing.an_export(3, trace=trace)))
            sweeper.sweep()
        assert {name: sweeper.counts[name] for name in ("sweeps", "failures", "traces", "spans")} == {
            "sweeps": 2,
            "failures": 0,
            "traces": 2,
            "spans": 6,
        }
        assert sweeper.seconds > 0


def test_times_are_counted_up_to_their_bounds() -> None:
    """A bound counts what took no longer than it, as Prometheus has it, and the parser finds a whole histogram."""
    watch = Stopwatch((0.5, 1.0))
    for seconds in (0.25, 0.5, 0.75, 2.0):
        watch.add(seconds)
    found = samples(exposition([Meter(name="x_seconds", told="X.", read=lambda: watch.times)]))
    assert found == {
        sample("x_seconds_bucket", le="0.5"): 2,
        sample("x_seconds_bucket", le="1.0"): 3,
        sample("x_seconds_bucket", le="+Inf"): 4,
        sample("x_seconds_count"): 4,
        sample("x_seconds_sum"): 3.5,
    }


def test_labels_are_escaped() -> None:
    """Whatever a label holds, a line stays a line."""
    meter = Meter(name="x", told="X.", read=lambda: {(("a", 'b"\\\n'),): 1.5})
    assert exposition([meter]) == '# HELP x X.\n# TYPE x gauge\nx{a="b\\"\\\\\\n"} 1.5\n'


@pytest.fixture
def number() -> Iterator[str]:
    """A request that is being answered."""
    token = request_id.set("abc")
    yield "abc"
    request_id.reset(token)


def test_a_line_names_its_request(number: str) -> None:
    """In text and in JSON; and what was raised is part of the line."""
    raised = ValueError("x\ny")
    told = (ValueError, raised, raised.__traceback__)
    record = logging.LogRecord("n", logging.WARNING, "", 0, "it is %s", ("late",), told)
    document = json.loads(JsonLines().format(record))
    assert (document["level"], document["message"], document["requestId"]) == ("warning", "it is late", number)
    assert "ValueError" in document["exception"]
    assert "\n" not in JsonLines().format(record)
    assert TextLines().format(record).endswith("[request abc]")


def test_a_server_logs_json_when_told_to(tmp_path: Path) -> None:
    """Each line on standard error is an object, and one about a request carries its number."""
    env = {"TRACEJURY_LOG_FORMAT": "json", "TRACEJURY_LOG_LEVEL": "debug"}
    with a_live_server(tmp_path / "data", flags=ANY_PORTS, env=env) as server:
        answer = server.client.get(f"{server.http}/api/v1/traces", headers={"x-request-id": "mine"})
        assert answer.headers["x-request-id"] == "mine"
        until(lambda: server.log, lambda log: '"mine"' in log)
        lines = [json.loads(line) for line in server.log.splitlines()]
        (line,) = [line for line in lines if line.get("requestId") == "mine"]
        assert line["message"] == "GET /api/v1/traces: 200"
