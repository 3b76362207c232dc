"""The query API of Jaeger, asked as Grafana's data source and the Jaeger UI ask."""

import base64
import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from tests.live import PATIENCE_S
from tests.serving import START_NS, a_server, an_export, post
from tests.storing import trace_id

START_US = START_NS // 1000
AROUND = {"start": START_US - 10_000_000, "end": START_US + 60_000_000}
ENVELOPE = {"data", "total", "limit", "offset", "errors"}

# What clients ask, written down from their sources. Of Grafana its backend's client (pkg/tsdb/jaeger/client.go): the
# health check, service and operation to choose from, a search (parameters in the order of the alphabet, empty ones left
# out, tags as the JSON of logfmt), a trace with the times of the panel in milliseconds if that is set, the node graph.
# Of the Jaeger UI packages/jaeger-ui/src/api: jaeger.js of 1.x, and the v3 paths that 2.x asks beside the old ones.
TIMES = f"start={AROUND['start']}&end={AROUND['end']}"
MILLISECONDS = f"end={AROUND['end'] // 1000}&start={AROUND['start'] // 1000}"
TAGS = "%7B%22error%22%3A%22%22%2C%22http.status_code%22%3A%22200%22%7D"
RECORDED = [
    "services",
    "services/shop/operations",
    "services/shop%2Fcart/operations",
    "services/shop/cart/operations",
    f"traces?end={AROUND['end']}&limit=20&service=shop&start={AROUND['start']}",
    f"traces?end={AROUND['end']}&limit=20&maxDuration=100ms&minDuration=1.2s&operation=root&service=shop&start=1&tags={TAGS}",
    "traces?limit=20&service=shop",
    f"traces/{trace_id(1)}",
    f"traces/{trace_id(1)}?{MILLISECONDS}",
    "dependencies?endTs=1795255200000&lookback=604800000",
    "operations?service=shop&spanKind=server",
    f"traces?{TIMES}&limit=20&lookback=1h&maxDuration&minDuration&service=shop",
    f"traces?{TIMES}&limit=20&lookback=custom&maxDuration&minDuration&service=shop&tags=%7B%22error%22%3A%22true%22%7D",
    f"traces?traceID={trace_id(1)}&traceID={trace_id(2)}",
]

# What of an answer Grafana reads, with the types that its Go structures have (pkg/tsdb/jaeger/types/types.go).
TAG = {"key": str, "type": str, "value": object}
READ = {
    "traceID": str,
    "warnings": (list, type(None)),
    "processes": dict,
    "spans": list,
}
READ_OF_SPAN = {
    "traceID": str,
    "spanID": str,
    "processID": str,
    "operationName": str,
    "startTime": int,
    "duration": int,
    "logs": list,
    "references": list,
    "tags": list,
    "warnings": (list, type(None)),
    "flags": int,
}


@pytest.fixture(scope="module")
def jaeger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Yield a server with three traces; the first has everything that Jaeger shows."""
    first = an_export(trace_id(1), "root", "step")
    root, step = first.resource_spans[0].scope_spans[0].spans
    root.kind, root.trace_state = Span.SPAN_KIND_SERVER, "a=b"
    root.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="no room"))
    for key, field, value in (
        ("whole", "int_value", 2**53 + 1),
        ("real", "double_value", 0.5),
        ("yes", "bool_value", True),
        ("raw", "bytes_value", b"\x00\xff"),
    ):
        setattr(root.attributes.add(key=key).value, field, value)
    root.attributes.add(key="several").value.array_value.values.add(string_value="a")
    event = root.events.add(name="exception", time_unix_nano=START_NS + 5_000)
    event.attributes.add(key="exception.type").value.string_value = "OSError"
    step.links.add(trace_id=bytes.fromhex(trace_id(2)), span_id=bytes.fromhex("00000000000000aa"))
    second, third = an_export(trace_id(2), "root", at_s=1), an_export(trace_id(3), "other", project="lab", at_s=2)
    third.resource_spans[0].scope_spans[0].spans[0].end_time_unix_nano = START_NS + 9_000_000_000
    with a_server(Path(tmp_path_factory.mktemp("jaeger"))) as server:
        for export in (first, second, third):
            post(f"http://{server.otlp_http}/v1/traces", export.SerializeToString())
        assert server.store.wait_committed(PATIENCE_S)
        with httpx.Client(base_url=f"http://{server.http}/jaeger/api", trust_env=False) as client:
            yield client


def ask(jaeger: httpx.Client, path: str, **parameters: Any) -> Any:
    """Send a request; return the data in the envelope of every response."""
    response = jaeger.get(path, params=parameters or None)
    assert response.status_code == httpx.codes.OK, response.text
    assert response.json().keys() == ENVELOPE
    return response.json()["data"]


def search(jaeger: httpx.Client, **parameters: Any) -> list[int]:
    """Search; return which of the three traces match."""
    return [int(trace["traceID"], 16) - 1 for trace in ask(jaeger, "traces", **(AROUND | parameters))]


@pytest.mark.parametrize("path", RECORDED)
def test_what_clients_ask_is_answered(jaeger: httpx.Client, path: str) -> None:
    """Every request that Grafana and the Jaeger UI make has an answer in Jaeger's envelope."""
    data = ask(jaeger, path)
    assert isinstance(data, list)
    for trace in data if path.startswith("traces") else ():
        assert trace.keys() == {"traceID", "spans", "processes", "warnings"}
        assert {span["processID"] for span in trace["spans"]} == trace["processes"].keys()


def fits(document: Any, shape: dict[str, Any]) -> bool:
    """Return whether the document has all members of the shape, with their types."""
    return all(isinstance(document[key], kind) for key, kind in shape.items())


def test_what_grafana_reads_is_there_and_of_the_type_that_it_decodes(jaeger: httpx.Client) -> None:
    """A field of another type would fail the whole answer in Go, and a trace without spans would stop its list."""
    listed = ask(jaeger, "traces", **AROUND)
    for trace in [*listed, *ask(jaeger, f"traces/{trace_id(1)}")]:
        assert fits(trace, READ)
        assert trace["spans"]
        for span in trace["spans"]:
            assert fits(span, READ_OF_SPAN)
            assert all(fits(tag, TAG) for tag in span["tags"])
            assert all(fits(log, {"timestamp": int, "fields": list}) for log in span["logs"])
            assert all(fits(tag, TAG) for log in span["logs"] for tag in log["fields"])
            assert all(fits(each, {"refType": str, "spanID": str, "traceID": str}) for each in span["references"])
        assert all(fits(each, {"serviceName": str, "tags": list}) for each in trace["processes"].values())


def test_the_jaeger_ui_of_2_has_its_v3_paths(jaeger: httpx.Client) -> None:
    """Services and operations under their own names, and a trace as OTLP has it: ids in hex, times as text."""
    assert jaeger.get("v3/services").json() == {"services": ["lab", "shop"]}
    operations = jaeger.get("v3/operations", params={"service": "lab"}).json()
    assert operations == {"operations": [{"name": "other", "spanKind": ""}]}
    for name in ("spanKind", "span_kind"):
        of_kind = jaeger.get("v3/operations", params={"service": "shop", name: "server"}).json()
        assert of_kind == {"operations": [{"name": "root", "spanKind": "server"}]}
    assert jaeger.get("v3/operations").status_code == httpx.codes.BAD_REQUEST
    (resource_spans,) = jaeger.get(f"v3/traces/{trace_id(1)}").json()["result"]["resourceSpans"]
    root = resource_spans["scopeSpans"][0]["spans"][0]
    assert (root["traceId"], root["startTimeUnixNano"]) == (trace_id(1), str(START_NS + 1))
    missing = jaeger.get(f"v3/traces/{'f' * 32}")
    assert missing.status_code == httpx.codes.NOT_FOUND
    assert missing.json() == {"error": {"httpCode": 404, "message": "trace not found"}}


def instant(after_ns: int) -> str:
    """Return an instant so long after the first span, as RFC 3339 with nanoseconds."""
    seconds, nanoseconds = divmod(START_NS + after_ns, 1_000_000_000)
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%S}.{nanoseconds:09}Z"


AROUND_V3 = {"query.startTimeMin": instant(-10_000_000_000), "query.startTimeMax": instant(60_000_000_000)}


def search_v3(jaeger: httpx.Client, **parameters: object) -> list[int]:
    """Search with `query.…` parameters; return which of the three traces match, none if Jaeger says so."""
    params = AROUND_V3 | {f"query.{name}": str(value) for name, value in parameters.items()}
    response = jaeger.get("v3/traces", params=params)
    if response.status_code == httpx.codes.NOT_FOUND:
        assert response.json() == {"error": {"httpCode": 404, "message": "No traces found"}}
        return []
    assert response.status_code == httpx.codes.OK, response.text
    document = response.json()
    assert document.keys() == {"result"}
    request = json_format.ParseDict(with_base64_ids(document["result"]), TracesData())  # an unknown field would fail
    ids = [one.scope_spans[0].spans[0].trace_id.hex() for one in request.resource_spans]
    return [int(each, 16) - 1 for each in ids]


def with_base64_ids(document: Any) -> Any:
    """Replace the hex ids of OTLP with the base64 of protobuf's JSON."""
    match document:
        case dict():
            return {
                key: base64.b64encode(bytes.fromhex(value)).decode() if key in OTLP_IDS else with_base64_ids(value)
                for key, value in document.items()
            }
        case list():
            return [with_base64_ids(each) for each in document]
        case _:
            return document


OTLP_IDS = {"traceId", "spanId", "parentSpanId"}


def test_a_search_of_v3_finds_by_each_of_its_parameters(jaeger: httpx.Client) -> None:
    """The same search as of old, with v3's names for its parameters, those of proto3 in JSON and those before them."""
    assert search_v3(jaeger) == [3, 2, 1]
    assert search_v3(jaeger, serviceName="shop") == search_v3(jaeger, service_name="shop") == [2, 1]
    assert search_v3(jaeger, operationName="step") == search_v3(jaeger, operation_name="step") == [1]
    assert search_v3(jaeger, attributes=json.dumps({"dokimos.project": "lab"})) == [3]
    assert search_v3(jaeger, attributes=json.dumps({"whole": "9007199254740993", "yes": "true"})) == [1]
    assert search_v3(jaeger, attributes=json.dumps({"error": "true"})) == [1]
    assert search_v3(jaeger, attributes=json.dumps({"span.kind": "server"})) == [1]
    assert search_v3(jaeger, durationMin="1.5s") == search_v3(jaeger, duration_min="1.5s") == [3]
    assert search_v3(jaeger, durationMax="5ms") == search_v3(jaeger, duration_max="5ms") == [2, 1]
    assert (
        search_v3(jaeger, searchDepth=1) == search_v3(jaeger, search_depth=1) == search_v3(jaeger, num_traces=1) == [3]
    )
    assert search_v3(jaeger, startTimeMin=instant(500_000_000)) == [3, 2]
    assert search_v3(jaeger, startTimeMax=instant(2)) == [1]
    assert search_v3(jaeger, startTimeMax=instant(1)) == []  # the end is not part of the window
    assert search_v3(jaeger, startTimeMin=instant(1), startTimeMax=instant(2), operationName="root") == [1]
    assert search_v3(jaeger, serviceName="nobody") == []


@pytest.mark.parametrize(
    "parameters, named",
    [
        ({"query.startTimeMin": ""}, "query.startTimeMin is required"),
        ({"query.startTimeMax": ""}, "query.startTimeMax is required"),
        ({"query.startTimeMin": "yesterday"}, "query.startTimeMin"),
        ({"query.startTimeMax": AROUND_V3["query.startTimeMin"]}, "must be before"),
        ({"query.searchDepth": "-1"}, "query.searchDepth"),
        ({"query.durationMin": "long"}, "query.durationMin"),
        ({"query.attributes": "[1]"}, "query.attributes"),
        ({"query.attributes": '{"error": "perhaps"}'}, "error"),
        ({"query.attributes": '{"span.kind": "servant"}'}, "span.kind"),
        ({"query.filter": "{}"}, "query.filter is not supported"),
        ({"query.pagination.pageToken": "x"}, "query.pagination.pageToken is not supported"),
    ],
)
def test_what_v3_cannot_read_is_refused(jaeger: httpx.Client, parameters: dict[str, str], named: str) -> None:
    """An invalid parameter is 400, in the shape of Jaeger's gateway."""
    response = jaeger.get("v3/traces", params=AROUND_V3 | parameters)
    assert response.status_code == httpx.codes.BAD_REQUEST
    error = response.json()["error"]
    assert error["httpCode"] == httpx.codes.BAD_REQUEST
    assert named in error["message"]


def test_services_and_operations_are_listed(jaeger: httpx.Client) -> None:
    """A service is who sent a span, an operation what the span is called."""
    assert ask(jaeger, "services") == ["lab", "shop"]
    assert ask(jaeger, "services/shop/operations") == ["root", "step"]
    assert ask(jaeger, "operations", service="shop", spanKind="server") == [{"name": "root", "spanKind": "server"}]
    assert len(ask(jaeger, "operations", service="shop")) == 3


def test_a_span_tells_everything_in_jaegers_words(jaeger: httpx.Client) -> None:
    """Kind, status, scope and state are tags beside the typed attributes; parents and links are references."""
    (trace,) = ask(jaeger, f"traces/{trace_id(1).lstrip('0')}")
    root, step = trace["spans"]
    tags = {tag["key"]: (tag["type"], tag["value"]) for tag in root["tags"]}
    assert tags == {
        "input.value": ("string", "asked root"),
        "whole": ("int64", 2**53 + 1),
        "real": ("float64", 0.5),
        "yes": ("bool", True),
        "raw": ("binary", "AP8="),
        "several": ("string", '["a"]'),
        "span.kind": ("string", "server"),
        "otel.status_code": ("string", "ERROR"),
        "otel.status_description": ("string", "no room"),
        "error": ("bool", True),
        "w3c.tracestate": ("string", "a=b"),
    }
    assert (root["startTime"], root["duration"], root["references"]) == (START_US, 4_999, [])
    fields = [{"key": "event", "type": "string", "value": "exception"}]
    fields.append({"key": "exception.type", "type": "string", "value": "OSError"})
    assert root["logs"] == [{"timestamp": START_US + 5, "fields": fields}]
    assert step["references"] == [
        {"refType": "CHILD_OF", "traceID": trace_id(1), "spanID": root["spanID"]},
        {"refType": "FOLLOWS_FROM", "traceID": trace_id(2), "spanID": "00000000000000aa"},
    ]
    assert trace["processes"]["p1"]["serviceName"] == "shop"


def test_a_search_finds_by_each_of_its_parameters(jaeger: httpx.Client) -> None:
    """Service, operation, tags, errors, durations, times and the limit each narrow the search."""
    assert search(jaeger) == [3, 2, 1]
    assert search(jaeger, service="shop") == [2, 1]
    assert search(jaeger, operation="step") == [1]
    assert search(jaeger, tags=json.dumps({"input.value": "asked other"})) == [3]
    assert search(jaeger, tag=["whole:9007199254740993", "yes:true"]) == [1]
    assert search(jaeger, tags=json.dumps({"dokimos.project": "lab"})) == [3]
    assert search(jaeger, tags=json.dumps({"error": True})) == [1]
    assert search(jaeger, tags=json.dumps({"error": ""})) == [1]
    assert search(jaeger, tags=json.dumps({"span.kind": "server"})) == [1]
    assert search(jaeger, minDuration="1.5s") == [3]
    assert search(jaeger, maxDuration="5ms", minDuration="4ms999us") == [2, 1]
    assert search(jaeger, start=START_US + 500_000) == [3, 2]
    assert search(jaeger, end=START_US + 500_000) == [1]
    assert search(jaeger, limit=1) == [3]
    assert search(jaeger, service="nobody") == []


def test_a_list_ends_once_it_has_so_many_bytes(jaeger: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of large traces a list has as many as fit, one at least, and the last one says how many are left out."""
    every = jaeger.get("/traces", params=AROUND | {"service": "shop"}).json()["data"]
    assert len(every) > 1
    monkeypatch.setattr("storage.query.queries.MAX_TRACE_BYTES", 1)
    (first,) = jaeger.get("/traces", params=AROUND | {"service": "shop"}).json()["data"]
    assert first["traceID"] == every[0]["traceID"]
    assert f"{len(every) - 1} more traces are not shown" in first["warnings"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"tags": "[1]"},
        {"tags": "{"},
        {"tag": "x"},
        {"minDuration": "long"},
        {"start": -1},
        {"tags": '{"error": "perhaps"}'},
        {"tags": '{"span.kind": "unspecified"}'},
    ],
)
def test_what_cannot_be_read_is_refused(jaeger: httpx.Client, parameters: dict[str, str]) -> None:
    """An invalid parameter is 400, in Jaeger's envelope."""
    response = jaeger.get("traces", params=parameters)
    assert response.status_code == httpx.codes.BAD_REQUEST
    assert response.json()["errors"][0]["code"] == httpx.codes.BAD_REQUEST


def test_a_trace_that_is_not_there_is_not_found(jaeger: httpx.Client) -> None:
    """A missing trace is 404 in the status and in the code of the error, both of which Jaeger's clients check."""
    response = jaeger.get(f"traces/{'f' * 32}")
    assert response.status_code == httpx.codes.NOT_FOUND
    assert response.json()["errors"] == [{"code": 404, "msg": "trace not found"}]
