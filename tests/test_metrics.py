"""The server's own metrics."""

import json
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from prometheus_client.parser import text_string_to_metric_families

from collector.live.upkeep.sweeper import Sweeper
from collector.logs import JsonLines, RepetitionFilter, TextLines, request_id
from collector.meters import Meter, exposition
from collector.otlp.decode import Request, decode
from storage.judging.job_results import JobResult
from storage.judging.jobs import LedgerTurn
from storage.timing import Stopwatch
from tests import storing
from tests.access import request
from tests.alerting import a_finding
from tests.live import ANY_PORTS, Live, a_live_server, until
from tests.serving import PROTOBUF, a_server, an_export
from tests.source_tree import ROOT
from tests.storing import RECEIVED_AT_US, a_batch, a_store, commit, span_id, trace_id
from tests.traffic import EXPORT_TRACES, Load, export_on
from tests.wire import JSON
from tests.working import Book

OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


PROMISED = set(
    re.findall(r"`((?:tracejury|process)_\w+)`", OPERATIONS.partition("**Metrics.**")[2].partition("## ")[0])
)


def samples(text: str) -> dict[str, float]:
    """Return the samples of an exposition, as the parser of Prometheus' own client reads them."""
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def sample(name: str, **labels: str) -> str:
    """Return the name of a sample."""
    return f"{name}{sorted(labels.items())}"


def scraped(server: Live) -> dict[str, float]:
    """Return the current samples of a server."""
    return samples(server.client.get(f"{server.http}/metrics").raise_for_status().text)


def undecoded(server: Live, unit: str, protocol: str, reason: str) -> float:
    """Return the requests, or bytes, that were turned away before their spans were counted."""
    return scraped(server).get(sample(f"tracejury_undecoded_{unit}_total", protocol=protocol, reason=reason), 0)


def test_the_numbers_follow_what_happens(tmp_path: Path) -> None:
    """Spans that come are counted by what became of them, and the numbers are those that the docs promise."""
    headers = {"content-type": "application/x-protobuf"}
    export = an_export("a" * 32, "one", "two")
    export.resource_spans[0].scope_spans[0].spans.add(name="no ids")
    out = {"results_endpoint": "http://127.0.0.1:9/v1/logs", "lake": str(tmp_path / "lake")}
    with a_server(tmp_path / "data", **out) as server:
        url = f"http://{server.http}/api/v1/traces"
        for _ in range(2):
            assert request(url, "POST", content=export.SerializeToString(), headers=headers).status_code == 200
        assert server.store.wait_committed(10)
        assert server.traces.wait_idle(20)
        assert server.pipeline.matcher.wait_matched(20)
        server.context.sweeper.sweep()
        time.sleep(1)  # one query of the waiting work is cached for half a second
        answer = request(f"http://{server.http}/metrics")
        metrics = samples(answer.text)
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name, labels, value in (
        ("tracejury_received_total", {"kind": "span", "outcome": "accepted"}, 4),
        ("tracejury_received_total", {"kind": "span", "outcome": "rejected"}, 2),
        ("tracejury_stored_total", {"outcome": "stored"}, 2),
        ("tracejury_stored_total", {"outcome": "already_present"}, 2),
        ("tracejury_stale_trace_spans", {}, 0),
        ("tracejury_read_alone_total", {"reason": "failed"}, 0),
        ("tracejury_unmatched_spans", {}, 0),
        ("tracejury_matching_lag_seconds", {}, 0),
        ("tracejury_queue_bytes", {}, 0),
        ("tracejury_backlog_bytes", {}, 0),
        ("tracejury_answer_bytes", {}, 0),
        ("tracejury_refused_answers_total", {}, 0),
        ("tracejury_commits_failing", {}, 0),
        ("tracejury_jobs", {"state": "claimed"}, 0),
        ("tracejury_alerts", {"state": "open"}, 0),
        ("tracejury_webhook_deliveries", {"state": "failed"}, 0),
        ("tracejury_sweeps_total", {"outcome": "done"}, 1),
        ("tracejury_swept_spans_total", {}, 0),
        ("tracejury_results_untold", {}, 0),
        ("tracejury_lake_failures_total", {}, 0),
        ("tracejury_lake_moved_total", {"what": "spans"}, 0),
        ("tracejury_judge_seconds_count", {}, 0),
    ):
        assert metrics[sample(name, **labels)] == value, name
    commits = metrics[sample("tracejury_commit_seconds_count")]
    assert commits == metrics[sample("tracejury_commit_seconds_bucket", le="+Inf")] >= 2
    assert metrics[sample("tracejury_commit_seconds_sum")] > 0
    assert metrics[sample("tracejury_disk_free_bytes")] > metrics[sample("tracejury_database_bytes")] > 0
    assert metrics[sample("tracejury_disk_bytes", part="spool")] > 0
    assert metrics[sample("tracejury_disk_bytes", part="other")] > (tmp_path / "data" / "reserve").stat().st_size > 0
    assert set(re.findall(r"^# TYPE (\S+) (?:counter|gauge|histogram)$", answer.text, re.MULTILINE)) == PROMISED


def test_every_span_that_is_refused_is_counted(tmp_path: Path, seed: int) -> None:
    """Over both protocols, the metrics count exactly the spans and requests that senders were told to retry."""
    spans = 30
    env = {"TRACEJURY_BACKLOG_BYTES": 100_000, "TRACEJURY_COMMIT_INTERVAL_MS": 500}
    with a_live_server(tmp_path / "data", env=env) as server:
        with Load(server, seed, senders=8, spans=spans) as load:
            until(lambda: load.sent.counts["later"], lambda count: count > 3000)
            sent = load.stop()
        metrics = scraped(server)
        turned_away = [undecoded(server, "requests", protocol, "overloaded") for protocol in ("http", "grpc")]
        statuses = {
            code: metrics.get(sample("tracejury_grpc_requests_total", method=EXPORT_TRACES, code=code), 0)
            for code in ("OK", "UNAVAILABLE")
        }
        route = {"method": "POST", "route": "/v1/traces"}
        for code, status in (("OK", "200"), ("UNAVAILABLE", "503")):
            statuses[code] += metrics.get(sample("tracejury_http_requests_total", **route, status=status), 0)
    assert min(turned_away) > 0
    refused = metrics.get(sample("tracejury_received_total", kind="span", outcome="refused"), 0)
    assert refused + spans * sum(turned_away) == sent.counts["later"]
    assert metrics[sample("tracejury_received_total", kind="span", outcome="accepted")] == sent.counts["taken"]
    assert statuses == {"OK": sent.counts["taken"] / spans, "UNAVAILABLE": sent.counts["later"] / spans}


def test_bytes_of_what_is_turned_away_are_counted_as_they_came(tmp_path: Path) -> None:
    """Refused bytes are counted by protocol and reason: too much, malformed, of an unknown type, or without a key."""
    body, key = an_export("a" * 32, "one").SerializeToString(), "k" * 32
    shown = {"authorization": f"Bearer {key}"}
    with a_live_server(tmp_path / "data", env={"TRACEJURY_API_KEY": key, "TRACEJURY_MAX_BODY_BYTES": 1024}) as server:
        server.client.headers.update(shown)
        with grpc.insecure_channel(server.grpc) as channel:
            call = export_on(channel)
            for message, metadata in ((b"\xff" * 9, shown), (body, {})):
                with pytest.raises(grpc.RpcError):
                    call(message, metadata=tuple(metadata.items()))
        bad = ((b"\xff" * 20, PROTOBUF), (b"[" * 7, JSON), (body, "text/plain"), (b"x" * 1100, PROTOBUF))
        for url in (f"{server.otlp_http}/v1/traces", f"{server.http}/api/v1/traces"):
            for content, kind in bad:
                assert server.client.post(url, content=content, headers={"content-type": kind}).status_code >= 400
            server.client.post(url, content=body, headers={"content-type": PROTOBUF, "authorization": "Bearer no"})
        counts = {
            (protocol, reason): (
                undecoded(server, "requests", protocol, reason),
                undecoded(server, "bytes", protocol, reason),
            )
            for protocol, reason in (
                ("http", "malformed"),
                ("http", "unsupported"),
                ("http", "too_large"),
                ("http", "unauthenticated"),
                ("grpc", "malformed"),
                ("grpc", "unauthenticated"),
            )
        }
    assert counts == {
        ("http", "too_large"): (2, 2200),
        ("http", "malformed"): (4, 2 * (20 + 7)),
        ("http", "unsupported"): (2, 0),
        ("http", "unauthenticated"): (2, 0),
        ("grpc", "malformed"): (1, 9),
        ("grpc", "unauthenticated"): (1, 0),
    }


def test_answers_are_counted_by_route_and_status(tmp_path: Path) -> None:
    """Routes are templates, and whatever is asked of the server makes no more labels than it has routes."""
    with a_live_server(tmp_path / "data") as server:
        for path in ("/api/v1/traces/" + "a" * 32, "/api/v1/traces/" + "b" * 32, "/health", "/nowhere", "/else"):
            server.client.get(server.http + path)
        for method in ("PROPFIND", "PATCH"):
            server.client.request(method, f"{server.http}/health")
        server.client.get(f"{server.otlp_http}/v1/traces")
        counted = {
            name: value for name, value in scraped(server).items() if name.startswith("tracejury_http_requests_total")
        }

    def requests_sample(method: str, route: str, status: int) -> str:
        return sample("tracejury_http_requests_total", method=method, route=route, status=str(status))

    assert counted == {
        requests_sample("GET", "/api/v1/traces/{trace_id}", 404): 2,
        requests_sample("GET", "/health", 200): 1,
        requests_sample("GET", "other", 404): 2,
        requests_sample("other", "other", 405): 1,
        requests_sample("PATCH", "other", 405): 1,
        requests_sample("GET", "/v1/traces", 405): 1,
    }


def test_an_unexpected_failure_is_counted_as_what_it_is(tmp_path: Path) -> None:
    """A request that meets a bug, here a part that has lost its database, counts as answered with 500."""
    with a_server(tmp_path / "data") as server:
        del server.store.rulebook._database
        assert request(f"http://{server.http}/api/v1/projects").status_code == 500
        labels = (("method", "GET"), ("route", "/api/v1/projects"), ("status", "500"))
        assert server.context.authenticator.traffic.http.read() == {labels: 1}


def test_lags_are_told_whole(tmp_path: Path) -> None:
    """However far matching and the sums of traces are behind, all spans that wait are counted, since the first."""
    spans, received_s = 120_000, time.time() - 700
    with a_store(tmp_path) as store:
        for trace in range(spans // 10_000):
            request = Request(body=storing.an_export(10_000, trace=trace).SerializeToString())
            commit(store, decode([request], received_at_us=int(received_s * 1e6)).batch)
        standing = store.gauges.look()
        for behind in (standing.stale, standing.unmatched):
            assert behind.spans == spans
            assert 700 <= behind.seconds < 1000
        status = store.status.status(time.time_ns())
        assert (status.adding_up.spans, status.matching.spans) == (spans, spans)


def test_the_process_and_its_version_are_told(tmp_path: Path) -> None:
    """Resident memory, start, open files and processor time are those of this process, beside the versions."""
    before_s = time.time()
    with a_live_server(tmp_path / "data") as server:
        metrics = scraped(server)
        files = len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
    assert metrics["process_resident_memory_bytes[]"] > 50 << 20
    assert before_s - 5 < metrics["process_start_time_seconds[]"] < time.time()
    assert abs(metrics["process_open_fds[]"] - files) < 5
    assert metrics["process_cpu_seconds_total[]"] > 0
    (build,) = [name for name in metrics if name.startswith("tracejury_build_info")]
    assert all(f"('{name}', '" in build for name in ("duckdb", "python", "tracejury"))


def test_jobs_alerts_and_results_are_counted_by_their_state(tmp_path: Path) -> None:
    """Waiting, finished and unacknowledged ones are counted; one query serves all numbers of a scrape."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(storing.an_export(2)))
        book = Book(store)
        book.enqueue(book.rule("check", evaluator="tool_error"), [(trace_id(0), span_id(0)), (trace_id(0), span_id(1))])
        done = JobResult(job_id=1, name="x", outcome="scored", score=1.0, passed=True, fingerprint="f")
        store.jobs.take_turn(LedgerTurn(now_us=1, until_us=2, finished=[done]))
        assert store.alerts.open(a_finding(), RECEIVED_AT_US * 1000)
        standing = store.gauges.look()
        assert (standing.stale.spans, standing.unmatched.spans) == (2, 2)
        assert standing.stale.seconds >= 0
        assert standing.jobs == {"ready": 1, "waiting": 0, "held": 0, "claimed": 0}
        assert standing.alerts == {"open": 1, "acknowledged": 0}
        assert (standing.results, standing.unwatched_results, standing.untold_results) == (1, 1, 1)
        assert store.gauges.look() is standing


def test_what_sweeps_take_away_is_added_up(tmp_path: Path) -> None:
    """Over all sweeps since the start, automatic and manual."""
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
    exposed = exposition([Meter(name="x_seconds", text="X.", read=lambda: watch.times)])
    assert {name: value for name, value in samples(exposed.decode()).items() if not name.startswith("process_")} == {
        sample("x_seconds_bucket", le="0.5"): 2,
        sample("x_seconds_bucket", le="1.0"): 3,
        sample("x_seconds_bucket", le="+Inf"): 4,
        sample("x_seconds_count"): 4,
        sample("x_seconds_sum"): 3.5,
    }


def test_labels_are_escaped() -> None:
    """Whatever a label holds, a line stays a line."""
    meter = Meter(name="x", text="X.", read=lambda: {(("a", 'b"\\\n'),): 1.5})
    assert exposition([meter]).startswith(b'# HELP x X.\n# TYPE x gauge\nx{a="b\\"\\\\\\n"} 1.5\n')


@pytest.fixture
def number() -> Iterator[str]:
    """Hold a request open; yield the number of open ones."""
    token = request_id.set("abc")
    yield "abc"
    request_id.reset(token)


def test_a_line_names_its_request(number: str) -> None:
    """A log line has its request id in text and in JSON, and includes the exception."""
    raised = ValueError("x\ny")
    exc_info = (ValueError, raised, raised.__traceback__)
    record = logging.LogRecord("n", logging.WARNING, "", 0, "it is %s", ("late",), exc_info)
    document = json.loads(JsonLines().format(record))
    assert (document["level"], document["message"], document["requestId"]) == ("warning", "it is late", number)
    assert "ValueError" in document["exception"]
    assert "\n" not in JsonLines().format(record)
    assert TextLines().format(record).endswith("[request abc]")


def raise_one(kind: type[Exception]) -> None:
    """Raise an exception of a type, always at the same line."""
    raise kind


def test_a_failure_that_repeats_is_logged_once_a_minute() -> None:
    """The same exception of the same line passes again after a minute, with a count; others pass at once."""

    def record(kind: type[Exception], at_s: float) -> logging.LogRecord:
        with pytest.raises(kind) as raised:
            raise_one(kind)
        raised_with = (raised.type, raised.value, raised.tb)
        now_s[0] = at_s
        return logging.LogRecord("n", logging.ERROR, "", 0, "it failed", (), raised_with)

    now_s = [0.0]
    failures = RepetitionFilter(lambda: now_s[0])
    times = (0.0, 1.0, 59.0)
    assert [failures.filter(record(OSError, at_s)) for at_s in times] == [True, False, False]
    assert failures.filter(record(ValueError, 59.0))
    again = record(OSError, 61.0)
    assert failures.filter(again)
    assert again.getMessage() == "it failed (2 more since the last such line)"


def test_a_line_that_repeats_is_logged_once_a_minute() -> None:
    """Numbers aside, an equal warning is left out and counted; other lines, and those about changes, are not."""
    now_s = 0.0
    repetitions, logged = RepetitionFilter(lambda: now_s), []

    def log(text: str, level: int = logging.WARNING, **extra: bool) -> None:
        record = logging.makeLogRecord({"name": "n", "levelno": level, "msg": text, **extra})
        if repetitions.filter(record):
            logged.append(record.getMessage())

    for second in range(121):
        now_s = float(second)
        log(f"jobs wait: {second} MiB are left")
    log("jobs wait: another reason")
    assert logged == [
        "jobs wait: 0 MiB are left",
        "jobs wait: 60 MiB are left (59 more since the last such line)",
        "jobs wait: 120 MiB are left (59 more since the last such line)",
        "jobs wait: another reason",
    ]
    logged.clear()
    for _ in range(2):
        log("disk_full: it is", is_change=True)
        log("1 span", logging.INFO)
    assert logged == ["disk_full: it is", "1 span"] * 2


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
