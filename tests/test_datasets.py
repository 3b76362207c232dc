"""Datasets over HTTP: items, versions that never change, files that come out as they went in."""

import io
import json
import resource
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.cli.main import main
from collector.datasets.export import export_items
from collector.datasets.files import Format, read_items
from collector.datasets.item import BadItem, ItemMaker, read_item
from collector.datasets.schema import ItemSchemas
from evaluators.schema_steps import MAX_STEPS
from storage.offline.datasets import Dataset, Item, NewItem
from tests.live import until
from tests.offline import Offline, an_offline_server, lines
from tests.serving import an_export, post, run
from tracejury.dataset import read_file
from tracejury.dataset_text import BadFile, _records

pytestmark = pytest.mark.costly(
    "collector/api",
    "collector/children",
    "collector/cli",
    "collector/conventions",
    "collector/datasets",
    "collector/listeners",
    "collector/evaluation",
    "collector/experiments",
    "collector/live/upkeep",
    "collector/reading",
    "collector/redaction",
    "evaluators",
    "sdk/python/src",
    "storage/offline",
    "storage/query",
    "storage/upkeep",
    "storage/views",
)

PARIS = {"id": "paris", "inputs": {"input": "capital of France?"}, "expectedOutputs": {"output": "Paris"}}
ROME = {"id": "rome", "input": "capital of Italy?", "expectedOutput": "Rome"}
TRACE = "a" * 32


@pytest.fixture(name="server", scope="module")
def a_running_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offline]:
    """Start one server for all tests."""
    with an_offline_server(tmp_path_factory.mktemp("datasets") / "data") as server:
        yield server


@pytest.fixture(name="api")
def an_empty_dataset(server: Offline) -> Offline:
    """Return the server with the dataset `qa` without a version, and no other."""
    for each in server.ask("GET", "datasets"):
        server.ask("DELETE", f"datasets/{each['id']}", 204)
    server.dataset(description="capitals", tags=["geo"])
    return server


def test_a_version_holds_its_items_in_their_order(api: Offline) -> None:
    """Simple and complex items are read, and returned in one form, in the order in which they were given."""
    made = api.version(ROME, PARIS, description="first")
    assert (made["datasetName"], made["version"], made["itemCount"], made["description"]) == ("qa", 1, 2, "first")
    rome, paris = api.items()
    assert (rome["id"], rome["inputs"], rome["expectedOutputs"]) == (
        "rome",
        {"input": "capital of Italy?"},
        {"output": "Rome"},
    )
    assert [paris["ordinal"], paris["metadata"]] == [1, {}]
    assert api.ask("GET", "datasets")[0]["latestItemCount"] == 2


def test_a_version_never_changes(api: Offline) -> None:
    """A later version leaves the items of an earlier one unchanged, and counts the differences."""
    api.version(PARIS, ROME)
    later = api.version(ROME, PARIS | {"expectedOutputs": {"output": "paris"}}, {"input": "and Spain?"})
    assert (later["added"], later["removed"], later["changed"]) == (1, 0, 1)
    assert [item["id"] for item in api.items(version=1)] == ["paris", "rome"]
    assert api.items(version=1)[0]["expectedOutputs"] == {"output": "Paris"}
    diff = api.ask("GET", "datasets/qa/versions/2/diff")
    assert {(each["status"], each["id"]) for each in diff["content"]} == {
        ("CHANGED", "paris"),
        ("ADDED", api.items()[2]["id"]),
    }
    beyond = api.ask("GET", "datasets/qa/versions/2/diff?page=9")
    assert (diff["totalElements"], beyond["totalElements"], beyond["content"]) == (2, 2, [])
    back = api.ask("GET", "datasets/qa/versions/1/diff?base=2")
    assert {each["status"] for each in back["content"]} == {"CHANGED", "REMOVED"}


def test_the_same_items_again_are_the_same_version(api: Offline) -> None:
    """A repeated request makes no version; the same items in another order are another version."""
    api.version(PARIS, ROME)
    assert api.version(PARIS, ROME, status=200)["version"] == 1
    assert api.version(ROME, PARIS)["version"] == 2


def test_appending_keeps_what_was_there(api: Offline) -> None:
    """With `append`, items keep their places, one with a known id replaces it, and new ones come last."""
    api.version(PARIS, ROME)
    api.version({"id": "paris", "input": "France?"}, {"id": "madrid", "input": "Spain?"}, mode="append")
    assert [item["id"] for item in api.items()] == ["paris", "rome", "madrid"]
    assert api.items()[0]["inputs"] == {"input": "France?"}
    assert api.version(ROME, mode="append", status=200)["version"] == 2


def test_an_item_without_an_id_is_known_by_its_inputs(api: Offline) -> None:
    """The same inputs have the same id in every version, and two items with them have two."""
    api.version({"input": "x"}, {"input": "x", "expectedOutput": "1"}, {"input": "y"})
    first = [item["id"] for item in api.items()]
    assert len(set(first)) == 3
    api.version({"input": "x", "expectedOutput": "2"})
    assert [item["id"] for item in api.items()] == first[:1]


NASTY = {
    "id": "nasty",
    "inputs": {"big": 12345678901234567890123, "one": 1, "float": 1.0, "null": None, "text": "1.0", "": "é\u2028"},
    "expectedOutputs": {"list": [1, 1.5, None, True, {"a": []}], "empty": ""},
    "metadata": {"0": "007", "=cmd": "+1", "quote": 'a"b,c\nd', "false": False},
}


@pytest.mark.parametrize("form", ["json", "jsonl", "csv", "parquet"])
def test_what_is_exported_comes_in_as_the_same_version(api: Offline, form: str) -> None:
    """Numbers, nulls, big integers and texts survive each format, so that importing an export makes no new version."""
    api.version(NASTY, PARIS, {"input": "no id"})
    content = api.exported(form)
    assert api.imported(content, form, status=200)["version"] == 1
    api.dataset("other")
    made = api.answer("POST", f"datasets/other/import?format={form}", content=content)
    assert made.status_code == 201
    assert [each | {"source": None} for each in api.items("other")] == api.items()
    inputs = api.items("other")[0]["inputs"]
    assert json.dumps(inputs, sort_keys=True) == json.dumps(NASTY["inputs"], sort_keys=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FORMS: list[Format] = ["json", "jsonl", "csv", "parquet"]
MAPS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
SHELF = Dataset(
    tenant="",
    dataset_id="d",
    name="d",
    description="",
    tags=(),
    input_schema=None,
    expected_schema=None,
    version=1,
    created_at_ns=0,
    updated_at_ns=0,
    latest_version=1,
    latest_item_count=1,
)


@given(
    st.lists(st.tuples(MAPS.filter(bool), MAPS, MAPS), min_size=1, max_size=4),
    st.sampled_from(["json", "jsonl", "csv", "parquet"]),
)
@settings(max_examples=60)
def test_any_item_survives_every_format(maps: list[tuple[Any, Any, Any]], form: Format) -> None:
    """Whatever JSON an item holds, a file of it is read as the same item."""

    def made(documents: Any) -> list[NewItem]:
        maker = ItemMaker(schemas=ItemSchemas())
        return [maker.make(each) for each in documents]

    names = ("inputs", "expectedOutputs", "metadata")
    documents = [dict(zip(names, each, strict=True)) for each in maps]
    items = made(map(read_item, documents))
    stored = [
        Item(
            ordinal=number,
            **{name: getattr(item, name) for name in ("item_id", "digest", "inputs", "expected_outputs", "metadata")},
        )
        for number, item in enumerate(items)
    ]
    content = b"".join(export_items(SHELF, stored, form))
    assert made(text for _, text in read_items(io.BytesIO(content), form)) == items


@pytest.mark.parametrize(
    "form, content, message",
    [
        ("jsonl", '{"input": "a"}\n\n{"input": \n', "line 3: it is not JSON"),
        ("jsonl", '{"input": "a"}\n{"inputs": {}}\n', "line 2: inputs: every item needs some"),
        ("jsonl", '{"input": "a", "input": "b"}\n', "line 1: it is not JSON: the name 'input' occurs twice"),
        ("jsonl", '{"input": NaN}\n', "line 1: it is not JSON: NaN"),
        ("jsonl", '{"input": 1e400}\n', "line 1: it is not JSON: the number 1e400 is too large"),
        ("jsonl", '{"input": "\\ud800"}\n', "line 1: half of a surrogate pair"),
        ("jsonl", '{"id": "a", "input": 1}\n{"id": "a", "input": 2}\n', "line 2: id: another item is called 'a'"),
        ("jsonl", '{"question": 1}\n', "line 1: question: unknown key"),
        ("jsonl", "\n \n", "there is no item in it"),
        ("json", '{"examples": [{"input": 1}, 5]}', "example 2: an item is a JSON object"),
        ("json", '{"rows": []}', "not a dataset"),
        ("csv", "input,expectedOutput\na,b\n\nc,d,e\n", "line 4: 3 cells, and the header has 2"),
        ("csv", 'input\n"a\nb"\nc"d\n', "line 4: a quote is not closed"),
        ("csv", 'input,x\nc"d"e,1\n', "line 2: a quote stands inside of a cell"),
        ("csv", "question;answer\na;b\n", "line 1: there is no column `input`; the columns are 'question', 'answer'"),
        ("csv", "input,INPUT\na,b\n", "line 1: two columns have the name 'input'"),
        ("csv", "input,\na,b\n", "line 2: 2 cells, and the header has 2; 'b' is below no name"),
        ("csv", "input,x\n,\n,,\n", "there is no item in it, and 2 rows without a value"),
        ("csv", b"input,x\na,b\nc,\xfc\n", "line 3: the byte 0xfc is not UTF-8: save the file as UTF-8"),
        ("csv", b"\xff\xfei\0", "line 1: the byte 0xff is not UTF-8"),
        ("parquet", "PAR1", "it is not Parquet that can be read"),
    ],
)
def test_what_is_wrong_in_a_file_is_told_with_its_place(
    api: Offline, form: str, content: str | bytes, message: str
) -> None:
    """The answer names the line or the example, and nothing of the file becomes a version."""
    assert message in api.imported(content, form, status=400)["error"]
    assert api.ask("GET", "datasets/qa")["versions"] == []


@pytest.mark.costly(
    "collector/children",
    "collector/conventions",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/live/upkeep",
    "collector/reading",
    "collector/redaction",
    "storage/offline",
    "storage/query",
    "storage/upkeep",
    "storage/views",
)
def test_the_description_of_a_json_file_is_that_of_its_version(api: Offline) -> None:
    """It is kept from files of any length and leaves in exports; one of the request counts more."""
    many = {"examples": [{"input": [[number]] * 40} for number in range(9_000)], "description": "Long"}
    for file, about in (
        ({"description": "Refunds", "examples": [{"input": 1}]}, "Refunds"),
        ({"examples": [{"input": 2}], "description": "Prices"}, "Prices"),
        (many, "Long"),
    ):
        assert api.imported(json.dumps(file), "json")["description"] == about
        assert json.loads(api.exported("json"))["description"] == about
    imported = api.imported('{"description": "No", "items": [{"input": 4}]}', "json", description="Yes")
    assert imported["description"] == "Yes"
    long = json.dumps({"description": "x" * 2_001, "items": [{"input": 5}]})
    assert "description: 2,001 characters" in api.imported(long, "json", status=400)["error"]


def test_a_wrong_row_of_parquet_is_told(api: Offline) -> None:
    """The answer names the row."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"inputs": ['{"a": 1}', "{"]}), sink)
    assert "row 2: inputs: it is not JSON" in api.imported(sink.getvalue(), "parquet", status=400)["error"]


def test_csv_is_read_as_rfc_4180_has_it(api: Offline) -> None:
    """A byte order mark is none of the header, plain cells are trimmed, quoted ones kept, and metadata stays text."""
    content = '\ufeffID, Input ,expected_output,level\r\n7, a  ,"  b, ""c""\n",007\r\n,d\r\n'
    api.imported(content.encode(), "csv")
    first, second = api.items()
    assert (first["id"], first["inputs"], first["expectedOutputs"]) == (
        "7",
        {"Input": "a"} and {"input": "a"},
        {"output": '  b, "c"\n'},
    )
    assert first["metadata"] == {"level": "007"}
    assert (second["inputs"], second["expectedOutputs"], second["metadata"]) == ({"input": "d"}, {}, {})


@pytest.mark.parametrize(
    "content",
    [
        'input,expectedOutput,\nq,"a;\nb",\n,,\n\n"","",""\nr,\n',  # as Excel writes a table that was longer
        '\ufeffinput;expectedOutput\r\nq;"a;\nb"\r\n;\r\n\r\n;\r\nr;\r\n',  # as Excel writes it in Germany
        'sep=;\ninput;expectedOutput\nq;"a;\nb"\n;\n;\nr;\n',
        '"sep=;"\ninput;expectedOutput\nq;"a;\nb"\n;\n;\nr;\n',
        'input\texpectedOutput\rq\t"a;\nb"\r\t\r\t\rr\t\r',  # as it is copied out of a table, on old systems
    ],
)
def test_csv_is_read_as_programs_for_tables_write_it(api: Offline, content: str, tmp_path: Path) -> None:
    """Semicolons and tabs separate cells too, and rows of empty cells are left out and counted, here and in the SDK."""
    imported = api.imported(content.encode(), "csv")
    assert (imported["itemCount"], imported["leftOut"]) == (2, 2)
    assert [each.startswith("line ") for each in imported["leftOutPlaces"]] == [True, True]
    first, second = api.items()
    assert (first["inputs"], first["expectedOutputs"]) == ({"input": "q"}, {"output": "a;\nb"})
    assert (first["metadata"], second["inputs"]) == ({}, {"input": "r"})
    (file := tmp_path / "CASES.CSV").write_bytes(content.encode())
    assert [each.inputs for each in read_file(file)] == [each["inputs"] for each in (first, second)]


def test_rows_of_nulls_in_parquet_are_left_out(api: Offline) -> None:
    """A table that was longer once has such rows, however it is written."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"input": ["q", None], "output": pa.array([None, None], pa.string())}), sink)
    imported = api.imported(sink.getvalue(), "parquet")
    assert (imported["itemCount"], imported["leftOutPlaces"]) == (1, ["row 2"])


def test_plain_columns_of_parquet_keep_their_types(api: Offline) -> None:
    """Columns beside `id`, `input` and `output` are metadata, numbers stay numbers, and null stays null."""
    sink = io.BytesIO()
    big = pa.array([Decimal(12345678901234567890123), None], pa.decimal128(30, 0))
    pq.write_table(pa.table({"id": [1, 2], "input": [5, 6], "output": ["five", None], "big": big}), sink)
    api.imported(sink.getvalue(), "parquet")
    first, second = api.items()
    assert (first["id"], first["inputs"], first["metadata"]) == ("1", {"input": 5}, {"big": 12345678901234567890123})
    assert (second["expectedOutputs"], second["metadata"]) == ({}, {"big": None})


def test_an_id_that_a_spreadsheet_would_compute_leaves_in_other_formats(api: Offline) -> None:
    """CSV of such an id is refused, because quotes do not keep a program for spreadsheets from computing it."""
    api.version({"id": "=1+1", "input": "x"})
    assert api.answer("GET", "datasets/qa/versions/1/export?format=csv").status_code == 409
    assert b"=1+1" in api.exported("jsonl")


@pytest.mark.costly(
    "collector/api",
    "collector/children",
    "collector/conventions",
    "collector/datasets",
    "collector/listeners",
    "collector/evaluation",
    "collector/experiments",
    "collector/live/upkeep",
    "collector/reading",
    "collector/redaction",
    "storage/offline",
    "storage/query",
    "storage/upkeep",
    "storage/views",
)
def test_an_import_is_not_bounded_as_requests_are(api: Offline) -> None:
    """A file larger than any request with JSON is read, and importing it again makes nothing."""
    content = lines(*({"id": number, "input": "x" * 1000} for number in range(12_000)))
    assert len(content) > 9 << 20
    assert api.imported(content)["itemCount"] == 12_000
    assert api.imported(content, status=200)["version"] == 1
    assert [item["id"] for item in api.items()][-1] == "999"


def test_a_schema_holds_for_the_versions_to_come(api: Offline) -> None:
    """An item that the schema refuses is named, and nothing of its version is there."""
    schema = {"type": "object", "required": ["input"], "properties": {"input": {"type": "string"}}}
    shown = api.ask("PUT", "datasets/qa", json={"inputSchema": schema})
    assert shown["inputSchema"] == schema
    assert "items[1]: inputs: " in api.version(PARIS, {"inputs": {"input": 5}}, status=400)["error"]
    assert "line 1: inputs: 'input' is a required property" in api.imported('{"inputs": {"a": 1}}', status=400)["error"]
    assert api.version(PARIS)["version"] == 1


@pytest.mark.parametrize(
    "schema", [{"properties": {"a": {"pattern": "(a+)+$"}}}, {"type": 5}, {"patternProperties": {}}]
)
def test_a_schema_that_cannot_be_used_is_refused(api: Offline, schema: dict[str, Any]) -> None:
    """An invalid schema, or one that could take for ever, is refused when set; a property may be named `pattern`."""
    assert "the schema: " in api.ask("PUT", "datasets/qa", 400, json={"inputSchema": schema})["error"]
    api.ask("PUT", "datasets/qa", json={"inputSchema": {"properties": {"pattern": {"type": "string"}}}})


def test_a_schema_whose_references_double_is_answered_with_its_bound(
    api: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An item whose check takes more steps than there are is refused with 400, and nothing of its version is there."""
    monkeypatch.setattr("collector.datasets.schema.MAX_STEPS", MAX_STEPS // 20)
    levels = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/a0", "$defs": levels | {"a40": {"const": "x"}}}
    api.ask("PUT", "datasets/qa", json={"inputSchema": schema})
    error = api.version({"inputs": {"a": 1}}, status=400)["error"]
    assert "items[0]: inputs: the schema cannot be used: this schema takes too many steps: more than 60000, " in error
    api.ask("PUT", "datasets/qa", json={"inputSchema": {"type": "object"}})
    assert api.version(PARIS)["version"] == 1


def test_names_are_unique_and_deleting_frees_them(api: Offline) -> None:
    """A second dataset of a name is refused; a deleted one is gone with its versions, and its name is free again."""
    api.version(PARIS)
    api.ask("POST", "datasets", 409, json={"name": "qa"})
    api.ask("DELETE", "datasets/qa", 204)
    api.ask("GET", "datasets/qa/versions/1", 404)
    tables = ("dataset_version", "dataset_member", "dataset_item")
    counted = " UNION ALL ".join(f"SELECT count(*) FROM {table}" for table in tables)
    assert api.sql(counted) == [[0]] * 3
    assert api.dataset()["latestVersion"] is None


def test_a_dataset_that_changed_meanwhile_is_told(api: Offline) -> None:
    """With `If-Match`, only the version that was seen is changed or deleted."""
    tag = api.answer("GET", "datasets/qa").headers["etag"]
    api.ask("PUT", "datasets/qa", json={"description": "x"}, headers={"if-match": tag})
    api.ask("PUT", "datasets/qa", 412, json={"description": "y"}, headers={"if-match": tag})
    api.ask("DELETE", "datasets/qa", 412, headers={"if-match": tag})


@pytest.mark.parametrize("name", ["a/b", "a@3", "", " a", "a\n", "x" * 201])
def test_a_name_that_no_address_could_hold_is_refused(api: Offline, name: str) -> None:
    """`dataset://NAME@VERSION` and paths name datasets."""
    api.ask("POST", "datasets", 400, json={"name": name})


@pytest.mark.parametrize("version", ["0", "-1", "first", "3", "99999999999"])
def test_a_version_that_is_not_there_is_told(api: Offline, version: str) -> None:
    """A malformed version is 400, and a missing one is 404."""
    api.version(PARIS)
    assert api.answer("GET", f"datasets/qa/versions/{version}").status_code in {400, 404}


def test_what_is_to_be_redacted_is_not_stored(tmp_path: Path) -> None:
    """Patterns and keys of the settings hold for items of datasets, at any depth."""
    plan = {"presets": ["email"], "keys": ["*password*"]}
    with an_offline_server(tmp_path / "data", redaction=plan) as api:
        api.dataset()
        item = {
            "inputs": {"who": "ann@example.org", "password": {"is": "hush"}, "n": 1},
            "metadata": {"l": ["bob@example.org"]},
        }
        api.version(item)
        (stored,) = api.items()
        assert stored["inputs"] == {"who": "[redacted]", "password": "[redacted]", "n": 1}
        assert stored["metadata"] == {"l": ["[redacted]"]}
        assert api.version(item, status=200)["version"] == 1


def send(api: Offline, trace_id: str = TRACE, *, session: str | None = None, at_s: int = 0) -> None:
    """Send a trace with two spans and wait for its commit."""
    assert api.running is not None
    export = an_export(trace_id, "ask", "call", at_s=at_s)
    for span in export.resource_spans[0].scope_spans[0].spans:
        span.attributes.add(key="output.value").value.string_value = f"answered {span.name}"
        if session:
            span.attributes.add(key="session.id").value.string_value = session
    post(f"http://{api.running.otlp_http}/v1/traces", export.SerializeToString())
    assert api.running.store.wait_committed(10)


def promote(api: Offline, *items: dict[str, Any], status: int = 201) -> Any:
    """Promote into `qa`."""
    return api.ask("POST", "datasets/promote", status, json={"datasetName": "qa", "items": [*items]})


def test_a_trace_becomes_an_item_behind_those_that_are_there(api: Offline) -> None:
    """The item has the trace's input, the expectation that a person gave, and the trace as its source."""
    api.version(PARIS)
    send(api)
    made = promote(api, {"traceId": TRACE, "overriddenExpectedOutput": {"output": "better"}})
    assert (made["version"], made["added"], made["itemCount"]) == (2, 1, 2)
    item = api.items()[1]
    assert (item["inputs"], item["expectedOutputs"]) == ({"input": "asked ask"}, {"output": "better"})
    assert (item["source"]["kind"], item["source"]["traceId"], item["source"]["project"]) == ("trace", TRACE, "shop")


def test_the_same_span_twice_adds_nothing(api: Offline) -> None:
    """Promoted again it is the item that is there; with another expectation, that item is changed."""
    send(api)
    span = {"traceId": TRACE, "spanId": "0" * 15 + "2"}
    assert promote(api, span, {"traceId": TRACE, "useOutput": True})["itemCount"] == 2
    assert [item["inputs"]["input"] for item in api.items()] == ["asked call", "asked ask"]
    assert [item["expectedOutputs"] for item in api.items()] == [{}, {"output": "answered ask"}]
    assert promote(api, span, status=200)["version"] == 1
    made = promote(api, span | {"overriddenExpectedOutput": "right"})
    assert (made["added"], made["changed"]) == (0, 1)
    assert api.items()[0]["expectedOutputs"] == {"output": "right"}
    assert promote(api, span, status=200)["version"] == 2


def test_an_item_outlives_its_trace(api: Offline) -> None:
    """When the trace is deleted, the item is as it was."""
    send(api)
    promote(api, {"traceId": TRACE})
    before = api.items()
    api.ask("DELETE", f"traces/{TRACE}")
    assert api.items() == before
    promote(api, {"traceId": TRACE}, status=200)


def test_a_session_becomes_its_last_question_after_what_was_said(api: Offline) -> None:
    """The turns of a session stand in the order in which its traces began."""
    send(api, "b" * 32, session="s 1", at_s=20)
    send(api, "c" * 32, session="s 1", at_s=10)
    counted = "SELECT count(*) FROM traces WHERE session_id = 's 1'"
    until(lambda: api.sql(counted), lambda rows: rows == [[2]])
    promote(api, {"sessionId": "s 1", "useOutput": True})
    (item,) = api.items()
    messages = [(each["role"], each["content"]) for each in item["inputs"]["messages"]]
    assert messages == [("user", "asked ask"), ("assistant", "answered ask"), ("user", "asked ask")]
    assert item["expectedOutputs"] == {"output": "answered ask"}


@pytest.mark.parametrize(
    "item, status",
    [
        ({"traceId": "f" * 32}, 404),
        ({"traceId": TRACE, "spanId": "f" * 16}, 404),
        ({"sessionId": "nobody"}, 404),
        ({}, 400),
        ({"traceId": TRACE, "sessionId": "x"}, 400),
        ({"spanId": "f" * 16}, 400),
    ],
)
def test_what_cannot_be_promoted_is_told(api: Offline, item: dict[str, Any], status: int) -> None:
    """A missing trace, span or session is 404, an invalid reference is 400, and a missing dataset is not created."""
    send(api)
    promote(api, item, status=status)
    api.ask("POST", "datasets/promote", 404, json={"datasetName": "none", "items": [{"traceId": TRACE}]})
    assert api.ask("GET", "datasets/qa")["versions"] == []


def test_a_broken_file_is_a_bad_file() -> None:
    """A reader raises what the API knows, for each format."""
    for form in ("json", "jsonl", "csv", "parquet"):
        with pytest.raises(BadFile):
            list(read_items(io.BytesIO(b"\xff\xfe\x00"), form))
    with pytest.raises(BadItem):
        read_item({"inputs": {"a": 1}, "id": "\n\x00 x"})


def _bomb(mebibytes: int, rows: int) -> bytes:
    """Return a small file of Parquet whose rows all have one long text."""
    text = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["a" * (mebibytes << 20)]))
    sink = io.BytesIO()
    options = {"compression": "zstd", "dictionary_pagesize_limit": 1 << 30, "write_statistics": False}
    pq.write_table(pa.table({"input": text}), sink, store_schema=False, **options)
    return sink.getvalue()


@pytest.mark.parametrize(
    "content, form, message",
    [
        (_bomb(5, 256), "parquet", "row 1: column 'input': 5,242,880 characters, and an item has at most 4 MiB"),
        (b"[" + b"[[],[]]," * 150_000 + b"[]]", "json", "example 1: an item is a JSON object"),
        (b'{"input": [' + b"[]," * 300_000 + b"[]]}\n", "jsonl", "line 1: more than 300,000 values"),
        (b"input," + b"a," * 1_000 + b"b\n", "csv", "line 1: 1,002 columns, which is more than 1,000 columns"),
    ],
)
def test_a_file_that_unpacks_to_much_is_refused_in_another_process(
    api: Offline, content: bytes, form: str, message: str
) -> None:
    """A small file that expands to much is refused: the error names the limit and the remedy, and memory stays."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert message in api.imported(content, form, status=400)["error"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10


def test_a_file_with_more_values_than_are_parsed_at_once_is_imported(api: Offline) -> None:
    """JSON of many small items is read in a process of its own, and means the same."""
    content = json.dumps([{"id": "a", "input": [[0] * 100] * 1_600}, {"id": "b", "input": [[1] * 100] * 1_600}])
    api.imported(content.encode(), "json")
    assert [(item["id"], item["inputs"]["input"][0][0]) for item in api.items()] == [("a", 0), ("b", 1)]


@pytest.mark.costly(
    "collector/children",
    "collector/conventions",
    "collector/datasets",
    "collector/evaluation",
    "collector/experiments",
    "collector/live/upkeep",
    "collector/reading",
    "collector/redaction",
    "storage/query",
    "storage/upkeep",
    "storage/views",
)
def test_a_file_whose_reading_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    """The process that reads it fails alone, and the error says what to change."""
    path = tmp_path / "bomb.parquet"
    path.write_bytes(_bomb(400, 2))
    with path.open("rb") as file, pytest.raises(BadFile, match="smaller row groups and pages, or send JSONL"):
        list(read_items(file, "parquet"))


class _Counted(str):
    """A line that counts the characters that are looked through for quotes."""

    __slots__ = ()
    looked_through = 0

    def count(self, *args: Any) -> int:
        """Count, and remember how long the text was."""
        _Counted.looked_through += len(self)
        return super().count(*args)

    def __add__(self, other: str) -> "_Counted":
        return _Counted(str(self) + other)


class _Lines(io.StringIO):
    """A file of such lines."""

    def readline(self, size: int | None = -1, /) -> str:  # type: ignore[override] # of bytes, says typeshed
        """Return the next line."""
        return _Counted(super().readline(-1 if size is None else size))


def test_each_line_of_a_record_is_looked_at_once() -> None:
    """A cell of many lines takes work in proportion to its length, because 200 kB of line ends took minutes."""
    text = 'input\n"' + "\n" * 5_000 + '"\n'
    _Counted.looked_through = 0
    (_, (cell,)), *_ = list(_records(_Lines(text, newline="")))[1:]
    assert (cell, _Counted.looked_through) == ("\n" * 5_000, len(text))


class _CountedIds(set[str]):
    """Ids that count how often they are searched."""

    searches = 0

    def __contains__(self, value: object) -> bool:
        self.searches += 1
        return super().__contains__(value)


def test_equal_items_are_numbered_without_trying_all_numbers_before() -> None:
    """Many items with the same inputs are searched for twice each, and numbers that given ids have are passed over."""
    maker = ItemMaker(schemas=ItemSchemas(), _ids=(ids := _CountedIds()))
    item = read_item({"input": 1})
    first = maker.make(item).item_id
    maker.make(read_item({"id": f"{first}-3", "input": 1}))
    names = [maker.make(item).item_id for _ in range(1_000)]
    assert (names[:2], names[-1]) == ([f"{first}-2", f"{first}-4"], f"{first}-1002")
    assert ids.searches < 2.1 * len(names)


def test_the_command_line_does_all_of_it(api: Offline, tmp_path: Path) -> None:
    """A file is imported once and exported unchanged, and an error in a file is reported with its line."""
    where = ("--server", api.url)
    file = tmp_path / "cases.jsonl"
    file.write_text(lines(PARIS, ROME), encoding="utf-8")
    assert "there is no dataset 'new' here; --create makes" in run("datasets", "import", "new", file, *where).output
    assert "dataset://new@1: 2 items: 2 added" in run("datasets", "import", "new", file, "--create", *where).output
    assert "the same as before" in run("datasets", "import", "new", file, *where).output
    file.write_text(lines({"id": "rome", "input": "other"}), encoding="utf-8")
    assert "1 changed" in run("datasets", "import", "new", file, "--append", *where).output
    assert "CHANGED" in run("datasets", "diff", "new@2", *where).output
    out = tmp_path / "out.csv"
    assert run("datasets", "export", "new@1", out, *where).exit_code == 0
    assert run("datasets", "import", "qa", out, *where).exit_code == 0
    assert api.items() == api.items("new", 1)
    file.write_text('{"input": 1}\n[]\n', encoding="utf-8")
    (table := tmp_path / "CASES.CSV").write_text("input;expectedOutput\n;\nq;a\n", encoding="utf-8")
    left = run("datasets", "import", "qa", table, *where)
    assert (left.exit_code, "left out: 1 rows without a value: line 2" in left.output) == (0, True), left.output
    wrong = run("datasets", "import", "new", file, *where)
    assert (wrong.exit_code, "line 2: an item is a JSON object" in wrong.output) == (1, True)
    assert "new" in run("datasets", "list", *where).output
    assert json.loads(run("datasets", "show", "new", "--json", *where).output)["latestVersion"] == 2
    send(api)
    made = run("datasets", "promote", "new", "--trace", TRACE, "--expected", "x", *where)
    assert "dataset://new@3: 3 items: 1 added" in made.output
    assert run("datasets", "delete", "new", "--yes", *where).exit_code == 0
    assert run("datasets", "show", "new", *where).exit_code == 1


def test_what_came_out_becomes_the_expectation_of_an_item_that_is_there(api: Offline) -> None:
    """An item of a run on the dataset, promoted with its output, is that item with another expectation; once."""
    api.version(PARIS)
    begun = api.begin(datasetName="qa", datasetVersion=1)
    api.report(begun, {"datasetItemId": "paris", "actualOutputs": {"output": "Lutetia"}})
    (entries,) = api.ask("GET", f"runs/{begun}")["items"]["content"]
    body = {"datasetName": "qa", "items": [{"itemResultId": entries["id"], "useOutput": True}]}
    assert api.ask("POST", "datasets/promote", 201, json=body)["changed"] == 1
    assert api.ask("POST", "datasets/promote", 200, json=body)["version"] == 2
    assert [item["expectedOutputs"] for item in api.items()] == [{"output": "Lutetia"}]


def test_the_command_line_makes_a_dataset_and_promotes_an_item_of_a_run(api: Offline) -> None:
    """A dataset is made without a file, and an item of a run becomes its first case."""
    begun = api.begin()
    api.report(begun, {"itemKey": "rome", "inputs": {"input": "capital of Italy?"}, "actualOutputs": {"output": "Rom"}})
    (entries,) = api.ask("GET", f"runs/{begun}")["items"]["content"]
    for words in (["create", "made"], ["promote", "made", "--item", str(entries["id"]), "--expected", "Rome"]):
        done = CliRunner().invoke(main, ["datasets", *words, "--server", api.url])
        assert done.exit_code == 0, done.output
    assert [item["expectedOutputs"] for item in api.items("made")] == [{"output": "Rome"}]
