"""Spans of scopes that the settings name are accepted, counted and not stored; calls recorded twice are found."""

import itertools
import time
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from collector.api.responses.server import StatusDocument
from collector.cli.responses import parse_response
from collector.cli.rule_text import _lines
from collector.dropped_scopes import DroppedScope, ScopeFilter
from collector.otlp.decode import Request, decode
from collector.server_conditions import _recorded_twice
from storage.store import Store
from tests.access import a_closed_server
from tests.live import until
from tests.serving import a_server
from tests.storing import a_batch, a_store, commit

pytestmark = pytest.mark.costly(
    "collector/access",
    "collector/api",
    "collector/cli",
    "collector/conditions.py",
    "collector/conventions",
    "collector/listeners",
    "collector/dropped_scopes.py",
    "collector/ingest.py",
    "collector/live",
    "collector/otlp",
    "collector/reading",
    "collector/server_conditions.py",
    "collector/web",
    "storage",
)

SDK, LIBRARY = "com.anthropic.sdk.python", "openinference.instrumentation.langchain"
ROOT_SCOPES = ((SDK, "2.14.0"), (LIBRARY, "0.1.80"), (SDK, "3.0.0"), ("", ""))


def a_request(project: str = "shop", scopes: Any = ROOT_SCOPES) -> ExportTraceServiceRequest:
    """Return two spans of each scope."""
    export = ExportTraceServiceRequest()
    of_resource = export.resource_spans.add()
    of_resource.resource.attributes.add(key="service.name").value.string_value = project
    for number, (name, version) in enumerate(scopes, 1):
        of_scope: ScopeSpans = of_resource.scope_spans.add()
        of_scope.scope.name, of_scope.scope.version = name, version
        for place in range(2):
            of_scope.spans.add(
                trace_id=project.ljust(8).encode() + number.to_bytes(8, "big"),
                span_id=(place + 1).to_bytes(8, "big"),
                name=f"{name} {version}",
                start_time_unix_nano=10**18,
                end_time_unix_nano=10**18 + 10**9,
            )
    return export


def left(entries: dict[str, list[str]], *requests: ExportTraceServiceRequest) -> tuple[list[str], dict[Any, int]]:
    """Return the names of the spans that stay, each once, and the dropped ones by entry."""
    scopes = ScopeFilter(entries)
    batch, dropped = scopes.drop(a_batch(*requests))
    assert batch.spans.num_rows + dropped.total() == sum(
        len(of_scope.spans) for each in requests for of in each.resource_spans for of_scope in of.scope_spans
    )
    return sorted(set(batch.spans.column("name").to_pylist())), dict(dropped)


SPANS = sorted(f"{name} {version}" for name, version in ROOT_SCOPES)


@pytest.mark.parametrize(
    "entry, gone",
    [
        (SDK, [f"{SDK} 2.14.0", f"{SDK} 3.0.0"]),
        (f"{SDK} 3.0.0", [f"{SDK} 3.0.0"]),
        (f"{SDK} 2.*", [f"{SDK} 2.14.0"]),
        ("com.anthropic.*", [f"{SDK} 2.14.0", f"{SDK} 3.0.0"]),
        (f"{LIBRARY}*", [f"{LIBRARY} 0.1.80"]),
        ("com.anthropic", []),
        (f"{SDK} 2", []),
    ],
)
def test_an_entry_names_a_scope_by_name_or_version_or_beginning(entry: str, gone: list[str]) -> None:
    """Names are whole names, unless a `*` at the end stands for the rest."""
    kept, dropped = left({"*": [entry]}, a_request())
    assert kept == [name for name in SPANS if name not in gone]
    assert dropped == ({DroppedScope("*", entry): 2 * len(gone)} if gone else {})


def test_an_entry_of_a_project_holds_for_it_alone() -> None:
    """A span that two entries name is counted once."""
    entries = {"*": [f"{SDK} 3.*"], "shop": [SDK]}
    kept, dropped = left(entries, a_request("shop"), a_request("bank"))
    assert kept == [name for name in SPANS if name != f"{SDK} 3.0.0"]
    assert dropped == {DroppedScope("shop", SDK): 4, DroppedScope("*", f"{SDK} 3.*"): 2}
    assert left({"bank": [SDK]}, a_request("shop")) == (SPANS, {})


def test_what_is_dropped_is_accepted_counted_and_not_stored(tmp_path: Path) -> None:
    """The answer is a success without a word, whole requests of such spans among them; all places have the number."""
    with a_server(tmp_path / "data", drop_scopes={"*": [SDK]}) as running, httpx2.Client() as client:
        for export in (a_request(), a_request("bank", [(SDK, "2.14.0")])):
            headers = {"content-type": "application/x-protobuf"}
            answer = client.post(
                f"http://{running.otlp_http}/v1/traces", content=export.SerializeToString(), headers=headers
            )
            assert answer.status_code == 200
            assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
        health = client.get(f"http://{running.http}/health").json()
        ask = partial(client.get, f"http://{running.http}/api/v1/status")
        status = until(lambda: ask().json(), lambda status: status["spans"]["stored"] >= 4)
        metrics = client.get(f"http://{running.http}/metrics").text.splitlines()
    assert health["dropped"] == 6
    assert status["server"]["dropped"] == [{"project": "*", "scope": SDK, "spans": 6}]
    assert status["spans"]["stored"] == 4
    assert f'tracejury_dropped_spans_total{{project="*",scope="{SDK}"}} 6.0' in metrics
    received = {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in metrics if "received_total{" in line}
    assert received['tracejury_received_total{kind="span",outcome="dropped"}'] == "6.0"
    assert received['tracejury_received_total{kind="span",outcome="accepted"}'] == "4.0"
    lines = {name: text for name, text, _ in _lines(parse_response(StatusDocument, status))}
    assert lines["dropped"] == f"6 of {SDK}"


def a_call(number: int, scope: str, **more: Any) -> ExportTraceServiceRequest:
    """Build a call of a model by itself in a trace."""
    start_ns, parent = more.pop("start_ns", 10**18 + number), more.pop("parent", "")
    export = a_request(more.pop("project", "shop"), [(scope, "")])
    (of_scope,) = export.resource_spans[0].scope_spans
    del of_scope.spans[1]
    (span,) = of_scope.spans
    span.trace_id = more.pop("trace", f"{scope[:6]:8}{number:8}").encode()
    span.span_id = f"{scope[4]}{number:7}".encode()
    span.parent_span_id = parent.encode()
    span.start_time_unix_nano, span.end_time_unix_nano = start_ns, start_ns + 10**9
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.response.model": "claude-5",
        "gen_ai.response.id": f"{number}",
    }
    usage = {"gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": number + 1}
    for key, value in (attributes | usage | more).items():
        if isinstance(value, str) and value:
            span.attributes.add(key=key).value.string_value = value
        elif isinstance(value, int):
            span.attributes.add(key=key).value.int_value = value
    return export


NOW_US, MINUTE_US = time.time_ns() // 1000, 60 * 10**6


def receive(store: Store, at_us: int, *exports: ExportTraceServiceRequest) -> None:
    """Commit spans as received at an instant."""
    bodies = [Request(body=each.SerializeToString()) for each in exports]
    commit(store, decode(bodies, received_at_us=at_us).batch)


NO_ID = {"gen_ai.response.id": ""}


@pytest.mark.parametrize(
    "other, count, expected",
    [
        ({}, 1, 1),
        (NO_ID, 3, 3),
        (NO_ID | {"gen_ai.response.model": "claude-5-2026-09-09"}, 3, 3),
        (NO_ID, 2, 0),
        (NO_ID | {"gen_ai.response.model": "gpt-5"}, 3, 0),
        (NO_ID | {"gen_ai.usage.output_tokens": 99}, 3, 0),
        ({"gen_ai.response.id": "another"}, 3, 0),
        ({"start_ns": 2 * 10**18}, 3, 0),
        ({"project": "bank"}, 3, 0),
    ],
)
def test_calls_that_two_scopes_record_in_two_traces_are_found(
    tmp_path: Path, other: dict[str, Any], count: int, expected: int
) -> None:
    """One response id is enough; without ids it takes three calls with one model, equal usage and overlapping times."""
    with a_store(tmp_path / "data") as store:
        calls = [[a_call(number, SDK), a_call(number, LIBRARY, **other)] for number in range(count)]
        receive(store, NOW_US, *(each for pair in calls for each in pair))
        pairs = store.gauges.calls_recorded_twice(NOW_US)
        messages = _recorded_twice(store, NOW_US)
    assert [(*pair[:4], pair.calls) for pair in pairs] == ([("", "shop", SDK, LIBRARY, expected)] if expected else [])
    assert [SDK in text and LIBRARY in text and "drop_scopes" in text for text in messages.values()] == [True] * len(
        pairs
    )


def test_calls_within_one_trace_are_not_recorded_twice(tmp_path: Path) -> None:
    """There the sums of the trace count them once."""
    with a_store(tmp_path / "data") as store:
        receive(
            store,
            NOW_US,
            *(a_call(number, scope, trace=f"{number:16}") for number in range(3) for scope in (SDK, LIBRARY)),
        )
        assert store.gauges.calls_recorded_twice(NOW_US) == []


def agent_calls(project: str, runs: int, first: int = 0) -> list[ExportTraceServiceRequest]:
    """Return runs of an agent with two calls each: a trace of its framework, and one of the client for each call."""
    exports = []
    for number in range(first, first + 2 * runs):
        trace = f"{project:8}{number // 2:8}"
        exports += [
            a_call(number, LIBRARY, trace=trace, parent="parent00", project=project),
            a_call(number, SDK, trace=f"{project:7}c{number:8}", project=project),
        ]
    return exports


def test_calls_recorded_twice_are_reported_for_an_hour(tmp_path: Path) -> None:
    """Neither later commits nor a restart end it; the time alone does."""
    with a_store(tmp_path / "data") as store:
        receive(store, NOW_US, *agent_calls("shop", runs=3))
        reported = _recorded_twice(store, NOW_US)
        receive(store, NOW_US + MINUTE_US, *(a_call(number, LIBRARY, project="bank") for number in range(2)))
        assert _recorded_twice(store, NOW_US + MINUTE_US) == reported
        receive(store, NOW_US + 2 * MINUTE_US, a_call(9, LIBRARY, project="bank"))
        assert _recorded_twice(store, NOW_US + 59 * MINUTE_US) == reported
    with a_store(tmp_path / "data") as store:
        assert _recorded_twice(store, NOW_US + 59 * MINUTE_US) == reported
        assert _recorded_twice(store, NOW_US + 61 * MINUTE_US) == {}
    assert len(reported) == 1


def test_each_call_that_is_recorded_twice_counts(tmp_path: Path) -> None:
    """Calls of one trace count one by one, those of each project for it, and those of each minute once."""
    with a_store(tmp_path / "data") as store:
        for minute, project in enumerate(("shop", "bank", "shop", "farm")):
            receive(store, NOW_US + minute * MINUTE_US, *agent_calls(project, runs=3, first=6 * minute))
            store.gauges.calls_recorded_twice(NOW_US + minute * MINUTE_US)
        pairs = store.gauges.calls_recorded_twice(NOW_US + 3 * MINUTE_US)
        assert {pair.project: pair.calls for pair in pairs} == {"shop": 12, "bank": 6, "farm": 6}
        later = store.gauges.calls_recorded_twice(NOW_US + 61 * MINUTE_US + 1)
    assert {pair.project: pair.calls for pair in later} == {"shop": 6, "farm": 6}


def test_two_spans_of_a_call_may_be_received_apart(tmp_path: Path) -> None:
    """A call is reported whose second span comes after the look that read the first, and counts once."""
    with a_store(tmp_path / "data") as store:
        receive(store, NOW_US, a_call(0, SDK))
        assert store.gauges.calls_recorded_twice(NOW_US) == []
        for minute, export in enumerate((a_call(0, LIBRARY), a_call(1, SDK), a_call(2, SDK)), 1):
            receive(store, NOW_US + minute * MINUTE_US, export)
            pairs = store.gauges.calls_recorded_twice(NOW_US + minute * MINUTE_US)
            assert [pair.calls for pair in pairs] == [1]


@pytest.mark.parametrize("parent, expected", [("parent00", SDK), ("", None)])
def test_the_message_names_the_scope_to_drop(tmp_path: Path, parent: str, expected: str | None) -> None:
    """It is the one that recorded less beside the calls; none if both recorded the same."""
    with a_store(tmp_path / "data") as store:
        receive(store, NOW_US, a_call(0, SDK), a_call(0, LIBRARY, parent=parent))
        (pair,) = store.gauges.calls_recorded_twice(NOW_US)
        (message,) = _recorded_twice(store, NOW_US).values()
    assert pair.expendable == expected
    assert f"name {expected or 'one of them'} in drop_scopes" in message


@pytest.mark.parametrize(
    "alike, others, models, expected",
    [
        (3, (1, 1), ("claude-5", "claude-5"), 3),
        (3, (2, 2), ("claude-5", "claude-5"), 0),
        (3, (2, 2), ("gpt-5", "claude-5-mini"), 3),
        (3, (0, 9), ("claude-5", "claude-5"), 3),
        (12, (18, 18), ("claude-5", "claude-5"), 0),
    ],
)
def test_calls_are_recorded_twice_if_most_of_a_model_are(
    tmp_path: Path, alike: int, others: tuple[int, int], models: tuple[str, str], expected: int
) -> None:
    """Two thirds of the calls of the scope with fewer are; fewer may be alike by chance, in any minute of the hour."""
    with a_store(tmp_path / "data") as store:
        receive(
            store,
            NOW_US,
            *(a_call(number, scope, **NO_ID) for number in range(alike) for scope in (SDK, LIBRARY)),
        )
        store.gauges.calls_recorded_twice(NOW_US)
        numbers = itertools.count(alike)
        calls = [
            a_call(next(numbers), scope, **NO_ID | {"gen_ai.response.model": model})
            for scope, count, model in zip((SDK, LIBRARY), others, models, strict=True)
            for _ in range(count)
        ]
        receive(store, NOW_US + MINUTE_US, *calls)
        pairs = store.gauges.calls_recorded_twice(NOW_US + MINUTE_US)
    assert sum(pair.calls for pair in pairs) == expected


def test_calls_of_equal_usage_are_counted_without_their_pairs(tmp_path: Path) -> None:
    """A crowd of equal calls counts each call once, whichever of them belong together."""
    with a_store(tmp_path / "data") as store:
        usage = NO_ID | {"gen_ai.usage.output_tokens": 1}
        receive(store, NOW_US, *(a_call(each, scope, **usage) for each in range(40) for scope in (SDK, LIBRARY)))
        assert [pair.calls for pair in store.gauges.calls_recorded_twice(NOW_US)] == [40]


def test_an_id_that_a_scope_repeats_is_none(tmp_path: Path) -> None:
    """Two scopes whose server answers each call with one id recorded different calls."""
    with a_store(tmp_path / "data") as store:
        calls = {"gen_ai.response.id": "chatcmpl-1"}
        receive(store, NOW_US, *(a_call(each, SDK, **calls) for each in range(3)), a_call(3, LIBRARY, **calls))
        assert store.gauges.calls_recorded_twice(NOW_US) == []


LONG_ID = {"gen_ai.response.id": "msg_01XFDUDYJgAACzvnptvVoYEL"}
OTHER_CALL = {"gen_ai.response.model": "gpt-5", "gen_ai.usage.input_tokens": 9_000}


@pytest.mark.parametrize(
    "first, second, expected",
    [
        (LONG_ID, LONG_ID, 1),
        (LONG_ID, LONG_ID | {"gen_ai.usage.output_tokens": 8}, 1),
        ({"gen_ai.response.id": "chatcmpl-123"}, {"gen_ai.response.id": "chatcmpl-123"}, 1),
        ({"gen_ai.response.id": "chatcmpl-123"}, {"gen_ai.response.id": "chatcmpl-123"} | OTHER_CALL, 0),
    ],
)
def test_a_short_id_is_one_call_with_one_model_and_usage(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], expected: int
) -> None:
    """Local servers answer each call with one id, so that two calls of two models have it."""
    with a_store(tmp_path / "data") as store:
        receive(store, NOW_US, a_call(0, SDK, **first), a_call(0, LIBRARY, **second))
        assert sum(pair.calls for pair in store.gauges.calls_recorded_twice(NOW_US)) == expected


def test_equal_calls_of_traces_with_both_scopes_are_not_recorded_twice(tmp_path: Path) -> None:
    """Parallel traces that have each call of both libraries count it once each."""
    usage = NO_ID | {"gen_ai.usage.output_tokens": 1}
    with a_store(tmp_path / "data") as store:
        calls = [a_call(each, scope, trace=f"{each:16}", **usage) for each in range(4) for scope in (SDK, LIBRARY)]
        receive(store, NOW_US, *calls)
        assert store.gauges.calls_recorded_twice(NOW_US) == []


def test_home_shows_what_is_recorded_twice_to_those_who_see_the_tenant(tmp_path: Path) -> None:
    """A viewer of another tenant does not see its projects and scopes."""
    now_us = time.time_ns() // 1000
    with a_store(tmp_path / "data") as store:
        bodies = [Request(body=each.SerializeToString(), tenant="acme") for each in agent_calls("shop", runs=3)]
        commit(store, decode(bodies, received_at_us=now_us).batch)
    with a_closed_server(tmp_path / "data") as server, httpx2.Client() as client:

        def home(key: str) -> str:
            headers = {"authorization": f"Bearer {server.keys[key]}"}
            return client.get(f"http://{server.running.http}/", headers=headers).text

        until(lambda: home("operator"), lambda text: f"name {SDK} in drop_scopes" in text)
        assert SDK in home("viewer of acme")
        assert SDK not in home("viewer of other")
        assert "Last 24 hours" in home("viewer of other")


def test_many_projects_with_calls_recorded_twice_are_summed_up(tmp_path: Path) -> None:
    """Twenty are reported one by one, and the others as a number."""
    with a_store(tmp_path / "data") as store:
        for number in range(22):
            receive(store, NOW_US, *agent_calls(f"shop{number}", runs=1, first=2 * number))
        messages = _recorded_twice(store, NOW_US)
    assert len(messages) == 21
    assert messages[""] == "2 more pairs of scopes and projects do so"
