"""Deletions on request: no deleted text is left in any field or file, whatever ends the process meanwhile."""

import hashlib
import json
import threading
from base64 import b64encode
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from google.protobuf.descriptor import FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from benchmarks.deletion import Scale, Trial
from collector.live.upkeep.eraser import Eraser
from storage.errors import Overloaded
from storage.ingest.trace_meanings import TraceSums
from storage.upkeep.deletion_steps import STEP_SPANS
from storage.upkeep.deletions import DELETING, DONE, Deletion, DeletionCriteria
from tests import forking
from tests.access import a_closed_server
from tests.every_field import ID_BYTES, Filler
from tests.live import PATIENCE_S, until
from tests.log_requests import MESSAGE, a_log_batch
from tests.matching import adding_up
from tests.plain_otlp import flat
from tests.serving import a_server, post, run
from tests.serving import an_export as a_trace
from tests.storing import RECEIVED_AT_US, START_NS, WAIT_S, a_batch, a_store, an_export, commit, rows, trace_id
from tests.test_readings import a_talk

pytestmark = pytest.mark.costly("collector/conventions", "collector/live", "storage")

LATER_NS = START_NS + 10**12
_START_BYTES = 5  # no longer than the shortest text that is looked for


class Marker(Filler):
    """A message whose texts and bytes, ids and keys included, can be found in a file."""

    def __init__(self) -> None:
        super().__init__()
        self.marks: list[str] = []

    def fill(self, message: Any, depth: int = 0) -> None:
        """Set all fields; the body of a log record is a text."""
        if isinstance(message, AnyValue):
            message.string_value = self._mark("body")
        else:
            super().fill(message, depth)

    def _fill_pairs(self, pairs: Any, depth: int) -> None:
        super()._fill_pairs(pairs, depth)
        for pair in pairs:
            pair.key = self._mark("key")

    def _scalar(self, field: FieldDescriptor) -> object:
        if field.name in ID_BYTES:
            number = hashlib.sha256(self._mark(field.name).encode()).digest()[: ID_BYTES[field.name]]
            self.marks[-1] = number.hex()
            return number
        if field.type == FieldDescriptor.TYPE_STRING:
            return self._mark(field.name)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._mark(field.name).encode()
        return super()._scalar(field)

    def _mark(self, name: str) -> str:
        self.marks.append(f"secret {len(self.marks):04} of {name}.")
        return self.marks[-1]


def marked(marker: Marker) -> tuple[ExportTraceServiceRequest, ExportLogsServiceRequest]:
    """Return spans, and log records about them, in which every field is set."""
    spans, logs = ExportTraceServiceRequest(), ExportLogsServiceRequest()
    marker.fill(spans)
    marker.fill(logs)
    ids = [(span.trace_id, span.span_id) for _, _, span in flat(spans)]
    for number, record in enumerate(_records(logs)):
        for replaced in (record.trace_id.hex(), record.span_id.hex(), record.event_name):
            marker.marks.remove(replaced)
        record.trace_id, record.span_id = ids[number % len(ids)]
        record.event_name = MESSAGE  # else nothing of it is kept
    return spans, logs


def _records(logs: ExportLogsServiceRequest) -> Iterator[LogRecord]:
    return (record for resource in logs.resource_logs for scope in resource.scope_logs for record in scope.log_records)


def marks_in(directory: Path, marks: Sequence[str]) -> set[str]:
    """Return the texts that any file of a data directory contains."""
    held = b"".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())
    by_form = {form: mark for mark in marks for form in forms(mark.encode())}
    lengths = sorted({len(form) for form in by_form})
    places = _beginning_alike(held, {form[:_START_BYTES] for form in by_form})
    pieces = (held[at : at + length] for at in places for length in lengths)
    return {by_form[piece] for piece in pieces if piece in by_form}


def _beginning_alike(held: bytes, starts: Collection[bytes]) -> list[int]:
    """Find the offsets of texts of one length, by narrowing candidates down byte by byte."""
    content = np.frombuffer(held, np.uint8)
    places = np.arange(len(content) - _START_BYTES)
    for number in range(_START_BYTES):
        begins = np.zeros(256, bool)
        begins[[start[number] for start in starts]] = True
        places = places[begins[content[places + number]]]
    return [at for at in places.tolist() if held[at : at + _START_BYTES] in starts]


def forms(mark: bytes) -> list[bytes]:
    """List the encodings of a text: plain, and, as bytes, hexadecimal and base64."""
    return [mark, mark.hex().encode(), b64encode(mark)[:-4]]


@pytest.mark.parametrize("neighbours", [3, 9000])
def test_no_file_holds_any_field_of_what_was_deleted(tmp_path: Path, neighbours: int) -> None:
    """No text of a span, a log record, a resource or a scope is in any file after the erasure, nor after a start."""
    marker = Marker()
    spans, logs = marked(marker)
    with a_store(tmp_path) as store:
        store._database._connection.execute("SET GLOBAL force_compression = 'uncompressed'")  # else ids cannot be seen
        commit(store, a_batch(an_export(neighbours, start_ns=LATER_NS)))
        commit(store, a_batch(spans), a_log_batch(logs))
        commit(store, a_batch(an_export(3, trace=1, start_ns=LATER_NS)))
        held = marks_in(tmp_path, marker.marks)
        store._database.checkpoints.make()
        held |= marks_in(tmp_path, marker.marks)
        assert held == set(marker.marks)
        criteria = DeletionCriteria(before_ns=LATER_NS - 1)
        assert store.retention.delete(criteria, now_us=RECEIVED_AT_US) == len({s.trace_id for _, _, s in flat(spans)})
        assert store.retention.sweep(now_us=RECEIVED_AT_US).freed_bytes is not None
        assert marks_in(tmp_path, marker.marks) == set()
        assert rows(store, "SELECT count(*) FROM log_record") == [(0,)]
        assert rows(store, "SELECT trace_id, count(*) FROM span GROUP BY ALL ORDER BY 1") == [
            (trace_id(0), neighbours),
            (trace_id(1), 3),
        ]
    with a_store(tmp_path):
        assert marks_in(tmp_path, marker.marks) == set()
    assert marks_in(tmp_path, marker.marks) == set()


def test_projects_that_traces_name_come_and_go_with_them(tmp_path: Path) -> None:
    """A later list has those that came since, and none whose last trace was deleted, though others came."""

    def named(tenant: str | None = None) -> list[tuple[str, str]]:
        return [(project.tenant, project.name) for project in store.rulebook.projects(tenant)]

    with a_store(tmp_path) as store:
        commit(
            store,
            a_batch(an_export(2, trace=1, project="stays")),
            a_batch(an_export(2, trace=2, first=8, project="goes")),
        )
        assert named() == [("", "goes"), ("", "stays")]
        commit(store, a_batch(an_export(2, trace=3, first=16, project="later"), tenant="acme"))
        assert named() == [("", "goes"), ("acme", "later"), ("", "stays")]
        assert (named(""), named("acme")) == ([("", "goes"), ("", "stays")], named())
        store.deletions.request(DeletionCriteria(project="goes"), now_us=RECEIVED_AT_US)
        while store.erasure.work():
            pass
        commit(store, a_batch(an_export(2, trace=4, first=24, project="stays")))
        assert named() == [("acme", "later"), ("", "stays")]


def test_deletions_of_one_tenant_leave_room_for_those_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Open deletions count for each tenant alone, and the refusal names the tenant."""
    monkeypatch.setattr("storage.upkeep.deletions._MOST_OPEN", 2)
    with a_store(tmp_path) as store:
        for user in ("a", "b"):
            store.deletions.request(DeletionCriteria(tenant="acme", user_id=user), now_us=RECEIVED_AT_US)
        with pytest.raises(Overloaded, match="of the tenant 'acme' than 2 deletions"):
            store.deletions.request(DeletionCriteria(tenant="acme", user_id="c"), now_us=RECEIVED_AT_US)
        for tenant in ("globex", ""):
            store.deletions.request(DeletionCriteria(tenant=tenant, user_id="c"), now_us=RECEIVED_AT_US)
        assert len(store.deletions.open()) == 4


def test_a_menu_of_projects_and_a_list_of_services_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many names clients send, a menu of projects and Jaeger's lists of names are bounded."""
    monkeypatch.setattr("storage.judging.rulebook._MOST_NAMES", 2)
    monkeypatch.setattr("storage.query.search._MOST_NAMES", 2)
    with a_store(tmp_path) as store:
        for number in range(3):
            commit(store, a_batch(an_export(1, trace=number + 1, first=number, project=f"p{number}")))
        assert store.rulebook.project_names() == ["p0", "p1"]
        assert store.search.services(tenant=None) == ["p0", "p1"]
        export = an_export(3, project="p0")
        for number, span in enumerate(export.resource_spans[0].scope_spans[0].spans):
            span.name = f"operation {number}"
        commit(store, a_batch(export))
        assert len(store.search.operations("p0", tenant=None)) == 2


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step of a deletion take an eighth of the spans that it usually takes, so that fewer are several steps."""
    monkeypatch.setattr("storage.upkeep.deletion_steps.STEP_SPANS", STEP_SPANS // 8)


@pytest.mark.usefixtures("small_steps")
def test_a_deletion_that_is_cut_off_goes_on(tmp_path: Path) -> None:
    """Each step is on record: the next process goes on behind it, and no trace is left or counted twice."""
    with a_store(tmp_path) as store:
        for number in range(40):
            commit(store, a_batch(an_export(250, trace=number, first=250 * number, project=f"p{number % 2}")))
        deletion = store.deletions.request(DeletionCriteria(project="p1"), now_us=RECEIVED_AT_US)
        store.erasure.work()
        seen = store.deletions.find(deletion.deletion_id)
        assert seen is not None
        assert seen.state == DELETING
        assert 0 < seen.share < 1
    with a_store(tmp_path) as store:
        while store.erasure.work():
            pass
        (done,) = store.deletions.page(tenant=None, skip=0, most=10)
        assert (done.state, done.traces, done.spans) == (DONE, 20, 5_000)
        assert rows(store, "SELECT project, count(*) FROM spans GROUP BY ALL") == [("p0", 5_000)]


@pytest.mark.usefixtures("small_steps")
def test_a_deletion_begins_where_others_are_and_comes_round(tmp_path: Path) -> None:
    """A deletion joins the others, then wraps to the traces before, whatever ends the process; its counts only grow."""
    shares, ids = list[float](), list[str]()
    with a_store(tmp_path) as store:
        for number in range(60):
            commit(store, a_batch(an_export(250, trace=number, first=250 * number, project=f"p{number % 3}")))
        for project in ("p1", "p2"):
            ids.append(store.deletions.request(DeletionCriteria(project=project), now_us=RECEIVED_AT_US).deletion_id)
            for _ in range(2):
                store.erasure.work()
        second = store.deletions.find(ids[1])
        assert second is not None
        assert second.began_batch > 0
    for most in (3, 3, 1_000):  # steps of a process; the last one does the rest
        with a_store(tmp_path) as store:
            for _ in takewhile(bool, (store.erasure.work() for _ in range(most))):
                second = store.deletions.find(ids[1])
                assert second is not None
                shares.append(second.share)
    with a_store(tmp_path) as store:
        done = store.deletions.page(tenant=None, skip=0, most=10)
        left = rows(store, "SELECT project, count(*) FROM spans GROUP BY ALL")
    assert shares == sorted(shares)
    assert [(each.state, each.traces, each.spans) for each in done] == 2 * [(DONE, 20, 5_000)]
    assert left == [("p0", 5_000)]


@pytest.mark.usefixtures("small_steps")
def test_a_step_that_is_not_over_stays_at_its_commit(tmp_path: Path) -> None:
    """Until a step has deleted all of its traces, the deletion keeps its position, so that the rest is found."""
    with a_store(tmp_path) as store:
        for number in range(40):
            commit(store, a_batch(an_export(250, trace=1, first=250 * number, project="p")))
        deletion = store.deletions.request(DeletionCriteria(project="p"), now_us=RECEIVED_AT_US)
        places = list[tuple[int, int]]()
        while store.erasure.work():
            seen = store.deletions.find(deletion.deletion_id)
            assert seen is not None
            if not seen.traces:
                places.append((seen.after_batch, seen.spans))
        assert len(places) > 1
        assert {after for after, _ in places} == {deletion.after_batch}
        assert rows(store, "SELECT count(*) FROM spans") == [(0,)]


def test_the_next_deletion_is_the_first_from_where_the_others_are(tmp_path: Path) -> None:
    """A deletion behind the place where others are waits until they come round, so that they share row groups."""
    with a_store(tmp_path) as store:
        requests = [
            replace(store.deletions.request(DeletionCriteria(project=name), now_us=RECEIVED_AT_US), after_batch=after)
            for name, after in (("behind", 2), ("ahead", 7), ("further", 9))
        ]
        turns = []
        for store.deletions.position in (5, 7, 8, 10, 0):
            chosen = store.erasure._next_in_turn(requests)
            assert chosen is not None
            turns.append((chosen.criteria.project, store.deletions.position))
        assert turns == [("ahead", 7), ("ahead", 7), ("further", 9), ("behind", 2), ("behind", 2)]


def test_a_deletion_asked_for_while_merging_is_allowed_forbids_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check for open deletions and the permission to merge row groups are one atomic step for other threads."""
    with a_store(tmp_path) as store:
        deletions, opened = store.deletions, store.deletions.open
        criteria = DeletionCriteria(project="p")
        asking = threading.Thread(target=lambda: deletions.request(criteria, now_us=RECEIVED_AT_US))

        def open_and_ask() -> list[Deletion]:
            waiting = opened()
            monkeypatch.setattr(deletions, "open", opened)
            is_held = deletions._asking.locked()
            asking.start()
            if not is_held:
                asking.join()
            return waiting

        monkeypatch.setattr(deletions, "open", open_and_ask)
        deletions.let_merge()
        asking.join()
        assert deletions.open()
        assert store._database.checkpoints.most_merges == 0


def test_a_deletion_asked_for_while_row_groups_are_merged_forbids_it_afterwards(tmp_path: Path) -> None:
    """A pass that merges row groups does not allow again the merging that a deletion has forbidden meanwhile."""
    with a_store(tmp_path) as store:
        checkpoints = store._database.checkpoints
        with checkpoints.merging():
            store.deletions.request(DeletionCriteria(project="p"), now_us=RECEIVED_AT_US)
            assert checkpoints.most_merges
        assert checkpoints.most_merges == 0
        while store.erasure.work():
            pass
        with checkpoints.merging():
            assert checkpoints.most_merges
        assert checkpoints.most_merges


def test_rows_are_written_anew_where_others_checkpoints_moved_them(tmp_path: Path) -> None:
    """If a checkpoint during a pass moves rows behind it, all deleted text is still erased."""
    marks = [f"span {8192 * number + 8000 + each}" for number in range(2, 8) for each in range(0, 192, 16)]
    with a_store(tmp_path) as store:
        store._database._connection.execute("SET GLOBAL force_compression = 'uncompressed'")
        for number in range(8):
            kept = an_export(8000, trace=2 * number, first=8192 * number)
            left = an_export(192, trace=2 * number + 1, first=8192 * number + 8000, project="gone")
            commit(store, a_batch(kept, left))
        store._database.checkpoints.make()
        assert marks_in(tmp_path, marks) == set(marks)
        deletion = store.deletions.request(DeletionCriteria(project="gone"), now_us=RECEIVED_AT_US)
        checkpoints = 0
        while store.erasure.work():
            if store.erasure.progress.total:
                store._writer.between(store._database.checkpoint_alone)
                checkpoints += 1
        assert checkpoints > 3
        done = store.deletions.find(deletion.deletion_id)
        assert done is not None
        assert (done.state, done.spans) == (DONE, 8 * 192)
        assert rows(store, "SELECT count(*), count(DISTINCT span_id) FROM span") == [(64_000, 64_000)]
        assert marks_in(tmp_path, marks) == set()


def test_a_deletion_does_not_lengthen_the_log_of_the_database(tmp_path: Path) -> None:
    """However much is deleted, what the next start has to replay stays small: no step is larger than a bound."""
    log, longest = tmp_path / "tracejury.duckdb.wal", 0
    with a_store(tmp_path) as store:
        for number in range(12):
            commit(store, a_batch(an_export(8192, trace=number, first=8192 * number, project=f"p{number % 2}")))
        store.deletions.request(DeletionCriteria(project="p1"), now_us=RECEIVED_AT_US)
        while store.erasure.work():
            longest = max(longest, log.stat().st_size if log.exists() else 0)
    assert longest < 16 << 20


def test_what_was_read_of_a_trace_that_was_deleted_meanwhile_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of spans that were read before a deletion, nothing of the deleted trace is stored, and all of the other."""
    with a_store(tmp_path) as store:
        keep = store.trace_meanings.store

        def store_late(sums: TraceSums) -> None:
            store.retention.delete(DeletionCriteria(trace_id=trace_id(1)), now_us=RECEIVED_AT_US)
            keep(sums)

        monkeypatch.setattr(store.trace_meanings, "store", store_late)
        commit(store, a_batch(a_talk(trace=0), a_talk(trace=1, first=2)))
        with adding_up(store) as traces:
            assert traces.wait_idle(WAIT_S)
        assert rows(store, "SELECT trace_id FROM span GROUP BY ALL") == [(trace_id(0),)]
        for table in ("trace_reading", "tool_call"):
            assert rows(store, f"SELECT trace_id FROM {table}") == [(trace_id(0),)]


def test_a_stop_between_two_steps_is_not_missed(tmp_path: Path) -> None:
    """A stop that is requested just before the thread forgets its last wake-up does not wait for the next look."""
    with a_store(tmp_path) as store:
        eraser = Eraser(store.deletions, store.erasure)

        class Late(threading.Event):
            def clear(self) -> None:
                eraser._stopping.set()
                self.set()
                super().clear()

        eraser._wake = Late()
        eraser.start()
        eraser._thread.join(20)
        assert not eraser._thread.is_alive()


def test_who_asks_again_joins_the_deletion_and_too_many_are_refused(tmp_path: Path) -> None:
    """The same request is the same deletion while it is under way; a hundred others wait, and the next is refused."""
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(1)))
        first = store.deletions.request(DeletionCriteria(project="p0"), now_us=1)
        assert store.deletions.request(DeletionCriteria(project="p0"), now_us=2) == first
        for number in range(1, 100):
            store.deletions.request(DeletionCriteria(project=f"p{number}"), now_us=3)
        with pytest.raises(Overloaded, match="no more can be under way than 100 deletions"):
            store.deletions.request(DeletionCriteria(project="p100"), now_us=4)


def test_whom_a_deletion_named_is_forgotten_with_the_rows(tmp_path: Path) -> None:
    """The list says that a user was asked for, and not which one, as soon as nothing of that user is left."""
    name = "somebody-whom-nobody-may-know"
    with a_store(tmp_path) as store:
        commit(store, a_batch(an_export(2)))
        deletion = store.deletions.request(DeletionCriteria(user_id=name), now_us=RECEIVED_AT_US)
        while store.erasure.work():
            pass
        stored = store.deletions.find(deletion.deletion_id)
        assert stored is not None
        assert (stored.state, stored.filters, stored.criteria) == (DONE, ["userId"], DeletionCriteria())
        assert marks_in(tmp_path, [name]) == set()


def test_deletions_are_told_over_http_and_on_the_command_line(tmp_path: Path) -> None:
    """Each deletion is listed with its progress, the server's metrics count them, and an unknown id is 404."""
    with a_server(tmp_path) as server, httpx.Client(base_url=f"http://{server.http}", trust_env=False) as client:
        post(f"http://{server.otlp_http}/v1/traces", a_trace(trace_id(1), "root", "step").SerializeToString())
        assert server.store.wait_committed(PATIENCE_S)
        answer = client.delete(f"/api/v1/traces/{trace_id(1)}").json()
        assert (answer["deletedTraces"], answer["deletedSpans"], answer["filters"]) == (1, 2, ["traceId"])
        path = f"/api/v1/deletions/{answer['id']}"
        done = until(lambda: client.get(path).json(), lambda seen: seen["state"] == "done")
        assert done["rowsGoneAt"] <= done["finishedAt"]
        assert client.get("/api/v1/deletions").json()["content"] == [done]
        assert client.get("/api/v1/deletions/nothing").status_code == httpx.codes.NOT_FOUND
        done_with = 'tracejury_deletions{state="erasing"} 0.0'
        metrics = until(lambda: client.get("/metrics").text, lambda text: done_with in text)
        assert "tracejury_deleted_traces_total 1.0" in metrics
        assert "deletions" in run("status", "--server", f"http://{server.http}").stdout
        listed = run("deletions", "--json", "--server", f"http://{server.http}").stdout
        assert json.loads(listed) == [done]
        assert "traceId" in run("deletions", "--server", f"http://{server.http}").stdout
    assert [each["id"] for each in json.loads(run("deletions", "--json", "--data", str(tmp_path)).stdout)] == [
        answer["id"]
    ]


def test_a_key_of_a_tenant_sees_deletions_of_its_tenant(tmp_path: Path) -> None:
    """Others are as if there were none."""
    with a_closed_server(tmp_path) as closed:
        made = closed.ask("DELETE", "/api/v1/traces?project=shop", key=closed.keys["admin of acme"]).json()
        assert made["tenantId"] == "acme"
        paths = ("/api/v1/deletions", f"/api/v1/deletions/{made['id']}")
        for name, seen, status in (("admin of acme", 1, 200), ("admin", 1, 200), ("admin of other", 0, 404)):
            answers = [closed.ask("GET", path, key=closed.keys[name]) for path in paths]
            assert len(answers[0].json()["content"]) == seen
            assert answers[1].status_code == status


def test_users_are_deleted_while_the_server_is_killed_again_and_again(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `python -m benchmarks.deletion` does, at a small scale, with every claim of it but the times."""
    monkeypatch.setattr("benchmarks.server.start_process", forking.start)
    scale = Scale(spans=24_576, users=40, deleted=4, kills=2, rate=1000, pause_s=(0.0, 1.5))
    measured = Trial(tmp_path / "data", scale, seed=seed).run(timed=False)
    assert measured.acknowledged > 0
