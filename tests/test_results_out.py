"""Results out: sent as OpenTelemetry events, each at least once, whichever side fails."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeAlias

import grpc
import pytest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.exporters.answers import Accepted, Answer, Rejected, RetryLater
from collector.exporters.configured import endpoint_at, values_of
from collector.exporters.results import ExportWaits, ResultsExporter
from collector.settings import BadSettings
from storage.engine.database import Database, DatabaseOptions
from storage.judging.job_results import JobResult
from storage.judging.jobs import LedgerTurn
from storage.judging.result_export import OutState
from storage.store import Store
from tests.certificates import a_certificate
from tests.live import ANY_PORTS, Live, until
from tests.receiving import Receiver, Reply, a_grpc_receiver, a_receiver, attributes_of, in_turn
from tests.serving import a_server, post, unused_port
from tests.storing import RECEIVED_AT_US, a_batch, a_store, an_export, commit, rows, span_id, trace_id
from tests.working import Book

pytestmark = pytest.mark.costly(
    "collector/closable_exporter.py",
    "collector/conventions",
    "collector/listeners",
    "collector/exporters",
    "collector/ingest.py",
    "collector/live",
    "collector/otlp",
    "storage",
)

QUICK = ExportWaits(look_s=0.02, first_s=0.01, longest_s=0.05, longest_requested_s=0.3, pause_s=0.05)

Receiving: TypeAlias = Callable[[Callable[[Sequence[LogRecord]], Reply]], AbstractContextManager[Receiver]]
OVER_BOTH = pytest.mark.parametrize("receiving", [a_receiver, a_grpc_receiver], ids=["HTTP", "gRPC"])


def judge(book: Book, count: int = 1, *, reason: str = "because", span: int | None = 1) -> None:
    """Store `count` results of a rule about the second span of the first trace, or about the trace."""
    target = "TRACE" if span is None else "SPAN"
    known = [active for active in book.revisions.values() if active.rule.target == target]
    active = known[0] if known else book.rule("check", evaluator="tool_error", target=target)
    ((last,),) = rows(book.store, "SELECT last_job FROM matching_state")
    assert isinstance(last, int)
    book.enqueue(active, [(trace_id(0), None if span is None else span_id(span))] * count)
    finish(book.store, [scored(last + each + 1, reason) for each in range(count)])


def scored(job_id: int, reason: str) -> JobResult:
    """Return a score that did not pass."""
    return JobResult(
        job_id=job_id, name="tone", outcome="scored", score=0.25, passed=False, reason=reason, fingerprint="print-1"
    )


def finish(store: Store, results: Sequence[JobResult]) -> None:
    """Store the results of jobs."""
    store.jobs.take_turn(LedgerTurn(now_us=RECEIVED_AT_US, until_us=RECEIVED_AT_US + 1, finished=results))


@contextmanager
def telling(store: Store, receiver: Receiver, most: int = 100) -> Iterator[ResultsExporter]:
    """Start the thread."""
    exporter = ResultsExporter(store.results_out, endpoint_at(receiver.url, {"x-key": "k"}), most=most, waits=QUICK)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.close()


def wait_until_sent(store: Store, number: int) -> None:
    """Wait until results up to this one are sent."""
    until(store.results_out.state, lambda state: state.number >= number)


@OVER_BOTH
def test_an_event_says_what_the_result_says(tmp_path: Path, receiving: Receiving) -> None:
    """It hangs on the span that was judged, a trace's on its root, with the names of the semantic conventions."""
    with a_store(tmp_path) as store, receiving(in_turn(Reply())) as receiver:
        export = an_export(2)
        export.resource_spans[0].scope_spans[0].spans[0].parent_span_id = bytes.fromhex(span_id(1))
        commit(store, a_batch(export))
        book = Book(store)
        judge(book)
        judge(book, span=None)
        with telling(store, receiver):
            wait_until_sent(store, 2)
    of_span, of_trace = receiver.records
    for record in (of_span, of_trace):
        assert record.event_name == "gen_ai.evaluation.result"
        assert (record.trace_id.hex(), record.span_id.hex()) == (trace_id(0), span_id(1))
        assert record.time_unix_nano == RECEIVED_AT_US * 1000
    attributes = attributes_of(of_span)
    assert attributes["gen_ai.evaluation.name"] == "tone"
    assert attributes["gen_ai.evaluation.score.value"] == 0.25
    assert attributes["gen_ai.evaluation.score.label"] == "fail"
    assert attributes["gen_ai.evaluation.explanation"] == "because"
    assert attributes["tracejury.rule"] == "rule 1"
    assert attributes["tracejury.fingerprint"] == "print-1"
    assert attributes["tracejury.evaluator"] == "tool_error"
    assert len(str(attributes["tracejury.rule_revision"])) == 12
    assert "error.type" not in attributes
    assert (attributes["tracejury.target"], attributes_of(of_trace)["tracejury.target"]) == ("span", "trace")
    (_, headers, request) = receiver.requests[0]
    assert (headers["x-key"], headers["user-agent"].split()[0]) == ("k", "tracejury")
    assert headers.get("path") in {None, "/v1/logs"}
    resource = {pair.key: pair.value for pair in request.resource_logs[0].resource.attributes}
    assert resource["dokimos.project"].string_value == "shop"
    assert resource["tracejury.internal"].bool_value


def test_what_failed_has_no_score_and_what_was_skipped_is_not_told(tmp_path: Path) -> None:
    """A broken judge is not a bad score, to either kind of receiver."""
    with a_store(tmp_path) as store, a_receiver(in_turn(Reply())) as receiver:
        commit(store, a_batch(an_export(2)))
        book = Book(store)
        book.enqueue(book.rule("check", evaluator="tool_error"), [(trace_id(0), span_id(0))] * 2)
        failed = JobResult(job_id=1, name="tone", outcome="failed", error_kind="refused", reason="no key")
        skipped = JobResult(job_id=2, name="tone", outcome="skipped", error_kind="over_budget")
        finish(store, [failed, skipped])
        with telling(store, receiver):
            wait_until_sent(store, 2)
    (record,) = receiver.records
    attributes = attributes_of(record)
    assert (attributes["error.type"], attributes["gen_ai.evaluation.explanation"]) == ("refused", "no key")
    assert not {"gen_ai.evaluation.score.value", "gen_ai.evaluation.score.label"} & attributes.keys()


def test_a_receiver_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """A receiver that hangs up, is overloaded, wants a key, or asks to wait is then sent everything, in order, once."""
    script = [Reply(0), Reply(503), Reply(401), Reply(429, {"retry-after": "3600"}), Reply()]
    with a_store(tmp_path) as store, a_receiver(in_turn(*script)) as receiver:
        commit(store, a_batch(an_export(2)))
        book = Book(store)
        judge(book, 5)
        with telling(store, receiver, most=2) as exporter:
            wait_until_sent(store, 5)
            assert exporter.counts == {"delivered": 5, "refused": 0, "retried": 4}
            judge(book)
            wait_until_sent(store, 6)
        assert receiver.numbers == [1, 2, 3, 4, 5, 6]
        assert store.results_out.behind() == 0


@OVER_BOTH
def test_one_that_is_refused_holds_up_no_other(tmp_path: Path, receiving: Receiving) -> None:
    """A result that the receiver never accepts is found by bisection, counted and skipped; partial rejects count."""

    def answer(records: Sequence[LogRecord]) -> Reply:
        bad = any(attributes_of(record)["tracejury.number"] == 3 for record in records)
        return Reply(400, code=grpc.StatusCode.INVALID_ARGUMENT) if bad else Reply(rejected=int(len(records) == 4))

    with a_store(tmp_path) as store, receiving(answer) as receiver:
        commit(store, a_batch(an_export(2)))
        judge(Book(store), 8)
        with telling(store, receiver) as exporter:
            wait_until_sent(store, 8)
            assert exporter.counts["refused"] == 2
        assert sorted(receiver.numbers) == [1, 2, 4, 5, 6, 7, 8]


@OVER_BOTH
def test_requests_stay_small(tmp_path: Path, receiving: Receiving) -> None:
    """Long explanations are cut, and many of them are sent in several requests."""
    with a_store(tmp_path) as store, receiving(in_turn(Reply())) as receiver:
        commit(store, a_batch(an_export(2)))
        judge(Book(store), 100, reason="x" * 50_000)
        with telling(store, receiver):
            wait_until_sent(store, 100)
    assert receiver.numbers == list(range(1, 101))
    assert all(export.ByteSize() <= 1 << 20 for _, _, export in receiver.requests)


def test_a_receiver_over_grpc_that_is_away_is_waited_for(tmp_path: Path) -> None:
    """Codes that OTLP lists as retryable, or an operator can mend, are retried, later if a RetryInfo asks for it."""
    code = grpc.StatusCode
    script = [Reply(code=each) for each in (code.UNAVAILABLE, code.ABORTED, code.UNAUTHENTICATED, code.UNIMPLEMENTED)]
    script += [Reply(code=code.UNAVAILABLE, retry_s=0.01), Reply(code=code.RESOURCE_EXHAUSTED, retry_s=3600), Reply()]
    with a_store(tmp_path) as store, a_grpc_receiver(in_turn(*script)) as receiver:
        commit(store, a_batch(an_export(2)))
        judge(Book(store), 5)
        with telling(store, receiver, most=2) as exporter:
            wait_until_sent(store, 5)
            assert exporter.counts == {"delivered": 5, "refused": 0, "retried": 6}
        assert receiver.numbers == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "reply, answer",
    [
        (Reply(rejected=3), Accepted(rejected=3)),
        (
            Reply(code=grpc.StatusCode.RESOURCE_EXHAUSTED),
            Rejected(why="answered RESOURCE_EXHAUSTED: as the script says"),
        ),
        (Reply(code=grpc.StatusCode.INTERNAL), RetryLater(why="answered INTERNAL: as the script says")),
        (
            Reply(code=grpc.StatusCode.UNAVAILABLE, retry_s=1.5),
            RetryLater(why="answered UNAVAILABLE: as the script says", after_s=1.5),
        ),
        (
            Reply(code=grpc.StatusCode.INVALID_ARGUMENT, retry_s=1),
            Rejected(why="answered INVALID_ARGUMENT: as the script says"),
        ),
    ],
)
def test_an_answer_over_grpc_is_read(reply: Reply, answer: Answer) -> None:
    """The status code, the RetryInfo and the partial success of a gRPC answer are read."""
    with a_grpc_receiver(in_turn(reply)) as receiver:
        endpoint = endpoint_at(receiver.url, {})
        assert endpoint.post(b"") == answer
        endpoint.close()
    endpoint = endpoint_at(receiver.url, {})
    assert isinstance(endpoint.post(b""), RetryLater)  # nothing listens
    endpoint.close()


@pytest.mark.costly("collector/closable_exporter.py", "collector/exporters")
def test_grpc_goes_over_tls(tmp_path: Path) -> None:
    """A server whose CA the environment names is sent the results, and one with an unknown CA is sent nothing."""
    key, certificate = a_certificate()
    roots = tmp_path / "roots.pem"
    roots.write_bytes(certificate)
    with a_store(tmp_path / "data") as store:
        commit(store, a_batch(an_export(2)))
        judge(Book(store), 1)
    with a_grpc_receiver(in_turn(Reply()), pair=(key, certificate)) as receiver:
        env = {"TRACEJURY_RESULTS_ENDPOINT": receiver.url}
        with Live(tmp_path / "data", flags=ANY_PORTS, env=env).wait_ready() as server:
            until(lambda: server.log, lambda log: "cannot export results; they wait" in log)
        assert receiver.requests == []
        env["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = str(roots)
        with Live(tmp_path / "data", flags=ANY_PORTS, env=env).wait_ready() as server:
            until(lambda: server.sql("SELECT number FROM results_out"), lambda stored: stored == [[1]])
    assert receiver.numbers == [1]


@OVER_BOTH
def test_what_was_told_and_not_noted_is_told_again_alike(tmp_path: Path, receiving: Receiving) -> None:
    """A server killed while the receiver answers sends the same event again, byte for byte, and no other one twice."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        judge(Book(store), 3)
    servers: list[Live] = []

    def answer(_: Sequence[LogRecord]) -> Reply:
        if len(receiver.requests) == 1:
            servers[0].kill()
        return Reply()

    with receiving(answer) as receiver:
        env = {"TRACEJURY_RESULTS_ENDPOINT": receiver.url, "TRACEJURY_RESULTS_BATCH": 2}
        with Live(tmp_path, flags=ANY_PORTS, env=env) as killed:
            servers.append(killed)
            killed.end()
        with Live(tmp_path, flags=ANY_PORTS, env=env).wait_ready() as server:
            until(lambda: server.sql("SELECT number FROM results_out"), lambda stored: stored == [[3]])
            assert server.stop() == 0
    assert receiver.numbers == [1, 2, 3, 3]
    assert receiver.records[2].SerializeToString() == receiver.records[3].SerializeToString()


def test_a_server_that_tells_itself_shows_each_result_once(tmp_path: Path) -> None:
    """There is no loop: its own events are log records and nothing else, and are not sent on."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        judge(Book(store), 3)
        own = store.results_out.state()
    assert own == OutState(number=0, instance=own.instance)
    address = f"127.0.0.1:{unused_port()}"
    with a_server(tmp_path, otlp_http=address, results_endpoint=f"http://{address}/v1/logs") as server:
        wait_until_sent(server.store, 3)
        assert server.store.wait_committed(20)
        assert server.traces.wait_idle(20)
        assert rows(server.store, "SELECT count(*) FROM logs") == [(3,)]
        assert rows(server.store, "SELECT origin, count(*) FROM evaluations GROUP BY ALL") == [("rule", 3)]
        assert server.store.results_out.behind() == 0


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_another_server_takes_results_as_scores_and_tells_them_no_further(tmp_path: Path, scheme: str) -> None:
    """Received scores are not results of its own rules, so two servers that send to each other come to rest."""
    (tmp_path / "b").mkdir()
    Database(tmp_path / "b", DatabaseOptions()).close()  # one of its own: copies have one identity
    with a_store(tmp_path / "a") as store, a_server(tmp_path / "b") as server:
        commit(store, a_batch(an_export(2)))
        book = Book(store)
        judge(book, 2)
        judge(book, span=None)
        post(f"http://{server.otlp_http}/v1/traces", an_export(2).SerializeToString())
        urls = {"http": f"http://{server.otlp_http}/v1/logs", "grpc": f"grpc://{server.grpc}"}
        theirs = Receiver(in_turn(Reply()), url=urls[scheme])
        with telling(store, theirs) as exporter:
            wait_until_sent(store, 3)
            assert exporter.counts["delivered"] == 3
        assert server.store.wait_committed(20)
        stored = rows(
            server.store, "SELECT origin, project, name, score, passed, span_id FROM evaluations ORDER BY ALL"
        )
        first = ("external", "shop", "tone", 0.25, False)
        assert stored == [(*first, span_id(1)), (*first, span_id(1)), (*first, None)]
        assert server.store.results_out.page(0, 10) == ([], 0)


def test_a_header_whose_variable_is_not_set_stops_the_start() -> None:
    """Rather than that requests go without it."""
    with pytest.raises(BadSettings, match="results_headers: the variable TRACEJURY_TEST_NOT_SET is not set"):
        values_of("results_headers", {"authorization": "TRACEJURY_TEST_NOT_SET"})


@pytest.mark.parametrize(
    "header, value", [("grpc-timeout", "1S"), ("x-trace-bin", "AAAA"), ("x!", "1"), ("x", "k\u00fc"), ("x", "a\nb")]
)
def test_a_header_that_grpc_cannot_send_stops_the_start(header: str, value: str) -> None:
    """Rather than that no call ever leaves; the error does not show the value."""
    with pytest.raises(BadSettings, match=f"results_headers: {header} and its value cannot be sent") as error:
        endpoint_at("grpc://127.0.0.1:4317", {header: value})
    assert value not in str(error.value)
