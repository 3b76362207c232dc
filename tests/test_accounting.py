"""Received = stored + already present + set aside + rejected + refused, under concurrency, overload and restarts."""

import itertools
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.live import Live, a_client, a_live_server, until
from tests.serving import PROTOBUF
from tests.traffic import Answer, Batch, Door, Load, Send, a_batch, joined, over_grpc, over_http
from tests.wire import JSON, as_json

pytestmark = pytest.mark.costly(
    "collector/api/traces",
    "collector/listeners",
    "collector/ingest.py",
    "collector/otlp",
    "collector/redaction",
    "collector/server_meters.py",
    "storage/ingest",
)

DAY_NS = 86_400 * 10**9


@contextmanager
def over_api(server: Live) -> Iterator[Send]:
    """Send JSON by the seeds' path, whose answer has counts."""
    with a_client() as client:

        def send(body: bytes) -> Answer:
            try:
                reply = client.post(
                    f"{server.http}/api/v1/traces", content=as_json(body), headers={"content-type": JSON}
                )
            except httpx.TransportError as error:
                return Answer(kind="lost", message=repr(error))
            if reply.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                return Answer(kind="later", retry_after_s=float(reply.headers["retry-after"]))
            assert reply.status_code == httpx.codes.OK, reply.text
            counts = reply.json()
            spans = sum(len(scope.spans) for scope in scopes(ExportTraceServiceRequest.FromString(body)))
            assert counts["acceptedSpans"] + counts["rejectedSpans"] == spans
            return Answer(kind="taken", rejected=counts["rejectedSpans"])

        yield send


DOORS: list[Door] = [over_grpc, over_http, over_api]


def scopes(request: ExportTraceServiceRequest) -> Iterator[ScopeSpans]:
    """Yield every list of spans in a request."""
    for resource_spans in request.resource_spans:
        yield from resource_spans.scope_spans


def moved(batch: Batch, by_ns: int) -> bytes:
    """Return the same spans, at another time."""
    request = ExportTraceServiceRequest.FromString(batch.body)
    for scope in scopes(request):
        for span in scope.spans:
            span.start_time_unix_nano += by_ns
            span.end_time_unix_nano += by_ns
    return request.SerializeToString()


def spoilt(batch: Batch, source: random.Random) -> tuple[bytes, int]:
    """Return the batch with some spans that cannot be stored, and how many."""
    request = ExportTraceServiceRequest.FromString(batch.body)
    bad = 0
    for scope in scopes(request):
        for span in scope.spans:
            fault = source.choice(["none", "trace", "span"])
            bad += fault != "none"
            if fault == "trace":
                span.trace_id = b"short"
            elif fault == "span":
                span.span_id = bytes(8)
    return request.SerializeToString(), bad


def a_delivery(batches: list[Batch], source: random.Random) -> tuple[bytes, int, int]:
    """Build a request of spans that may have been delivered before: bytes, spans, and the number of bad ones."""
    chosen = source.choices(batches, k=source.randint(1, 4))
    spans = sum(len(batch.span_ids) for batch in chosen)
    match source.randrange(5):
        case 0:
            return joined(*chosen, *chosen), 2 * spans, 0
        case 1:
            return b"".join(moved(batch, source.choice([1, -DAY_NS, 400 * DAY_NS])) for batch in chosen), spans, 0
        case 2:
            body, bad = spoilt(chosen[0], source)
            return body, len(chosen[0].span_ids), bad
        case _:
            return joined(*chosen), spans, 0


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run `work` in `count` threads; raise the exceptions of these threads."""
    failures: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - handed to the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def check_store(server: Live) -> None:
    """Check that the tally agrees with the rows, and that no span is stored twice."""
    question = "SELECT count(*), count(DISTINCT (tenant, trace_id, span_id)) FROM spans"
    stored = server.tally().stored
    assert server.sql(question) == [[stored, stored]]
    assert server.sql("SELECT coalesce(sum(span_count), 0)::BIGINT FROM traces") == [[stored]]


def test_every_span_of_concurrent_clients_is_accounted_for(tmp_path: Path, seed: int) -> None:
    """With copies within and across requests, at other times, and bad spans: the counts of both sides are the same."""
    source = random.Random(seed)
    batches = [a_batch(source, source.choice([1, 3, 20])) for _ in range(40)]
    totals: Counter[str] = Counter()
    lock = threading.Lock()

    def work(number: int) -> None:
        own = random.Random(f"{seed}/{number}")
        with DOORS[number % len(DOORS)](server) as send:
            for _ in range(60):
                body, spans, bad = a_delivery(batches, own)
                answer = send(body)
                assert (answer.kind, answer.rejected) == ("taken", bad)
                with lock:
                    totals.update(received=spans, rejected=bad)

    with a_live_server(tmp_path / "data") as server:
        in_threads(work, 6)
        with over_http(server) as send:  # whatever was not delivered as it is by then
            assert send(joined(*batches)).kind == "taken"
        distinct = sum(len(batch.span_ids) for batch in batches)
        totals["received"] += distinct
        tally = server.committed(totals["received"] - totals["rejected"])
        assert totals["received"] == tally.stored + tally.already_present + totals["rejected"]
        assert tally.stored == distinct
        check_store(server)


@pytest.mark.parametrize(
    "setting, value", [("TRACEJURY_QUEUE_BYTES", 20_000), ("TRACEJURY_BACKLOG_BYTES", 60_000)], ids=["queue", "backlog"]
)
def test_a_refused_request_leaves_no_span_behind(tmp_path: Path, seed: int, setting: str, value: int) -> None:
    """Under overload every request is either stored whole or refused whole, with a delay for the retry."""
    with a_live_server(tmp_path / "data", env={setting: value}) as server:
        with Load(server, seed, senders=12, spans=40) as load:
            time.sleep(2)
            sent = load.stop()
        assert sent.counts["later"] > 0
        assert sent.counts["lost"] == sent.counts["rejected"] == sent.without_delay == 0
        tally = server.committed(sent.counts["taken"])
        assert (tally.stored, tally.already_present) == (sent.counts["taken"], 0)
        check_store(server)
        rows = server.sql("SELECT string_agg(span_id, ' ') FROM spans")
        assert set(str(rows[0][0]).split()) == set(sent.acknowledged)


def test_sending_again_until_it_is_taken_stores_everything_once(tmp_path: Path, seed: int) -> None:
    """Senders that repeat refused or lost requests have every span stored once, through stops and kills."""
    source = random.Random(seed)
    share, senders = 60, 6
    batches = [[a_batch(source, 10) for _ in range(share)] for _ in range(senders)]
    running: list[Live] = []
    totals: Counter[str] = Counter()
    lock = threading.Lock()
    gone = threading.Event()

    def deliver(number: int) -> None:
        waiting = list(batches[number])
        while waiting:
            with DOORS[number % len(DOORS)](running[-1]) as send:
                while waiting:
                    answer = send(waiting[0].body)
                    with lock:
                        totals[answer.kind] += len(waiting[0].span_ids)
                    if answer.kind == "taken":
                        waiting.pop(0)
                        gone.wait(0.02)
                    else:
                        time.sleep(0.2)
                    if answer.kind == "lost":
                        break

    def restart() -> None:
        for sig in itertools.islice(itertools.cycle([signal.SIGTERM, signal.SIGKILL]), 3):
            time.sleep(source.uniform(0.2, 0.6))
            last = running[-1]
            last.process.send_signal(sig)
            assert last.end() == (0 if sig is signal.SIGTERM else -signal.SIGKILL)
            tight = {"TRACEJURY_BACKLOG_BYTES": 30_000, "TRACEJURY_COMMIT_INTERVAL_MS": 20}
            running.append(Live(tmp_path / "data", env=tight).wait_ready())
        gone.set()

    running.append(Live(tmp_path / "data").wait_ready())
    try:
        in_threads(lambda number: restart() if number == senders else deliver(number), senders + 1)
        # Some requests whose answers were lost are stored, so the number of commits is not a measure.
        tally = until(running[-1].tally, lambda tally: tally.stored >= share * senders * 10)
        assert tally.stored == share * senders * 10
        assert totals["taken"] <= tally.committed <= totals["taken"] + totals["lost"]
        check_store(running[-1])
    finally:
        for server in running:
            server.__exit__()


def test_the_same_delivery_over_every_door_is_one_delivery(tmp_path: Path) -> None:
    """Spans received over one endpoint are already present for the others, also after a restart."""
    batch = a_batch(random.Random(), 50)
    for round_number in range(2):
        with a_live_server(tmp_path / "data") as server:
            for door in DOORS:
                with door(server) as send:
                    assert send(batch.body).kind == "taken"
            tally = server.committed((round_number + 1) * 150)
            assert (tally.stored, tally.already_present) == (50, round_number * 150 + 100)
            check_store(server)
            assert server.stop() == 0


def test_receipts_are_those_of_each_request(tmp_path: Path) -> None:
    """Requests that are decoded and stored together get each its own counts."""
    source = random.Random(1)
    bodies = []
    for bad in range(20):
        request = ExportTraceServiceRequest.FromString(a_batch(source, 20).body)
        for span in request.resource_spans[0].scope_spans[0].spans[:bad]:
            span.span_id = b"?"
        bodies.append(request.SerializeToString())
    with a_live_server(tmp_path / "data") as server:
        url = f"{server.http}/api/v1/traces"

        def work(number: int) -> None:
            with a_client() as client:
                for bad in source.sample(range(20), 20):
                    reply = client.post(url, content=bodies[bad], headers={"content-type": PROTOBUF}).json()
                    reply.pop("errorMessage", None)
                    assert reply == {"acceptedSpans": 20 - bad, "rejectedSpans": bad, "traces": 1}, number

        in_threads(work, 8)
