"""Redaction of secrets and personal data before anything is written."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from collector.otlp.decode import Request, decode
from collector.otlp.signals import LOGS
from collector.redaction.columns import Redactor
from collector.redaction.plan import PRESETS, REDACTED, RedactionPlan, make_plan
from storage.ingest.batch import SpanBatch, ipc_stream
from tests.access import request
from tests.log_requests import some_logs
from tests.serving import a_server
from tests.storing import a_batch, an_export

pytestmark = pytest.mark.costly(
    "collector/listeners", "collector/ingest.py", "collector/otlp", "collector/redaction", "storage/ingest"
)

MAIL = "ann.o'neill+x@mail.example.org"
CARD = "4111 1111 1111 1111"
KEY = "sk-proj-abcdefghijklmnopqrstuv"
PROTOBUF = {"content-type": "application/x-protobuf"}


def a_plan(*presets: str, keys: tuple[str, ...] = (), patterns: tuple[str, ...] = ()) -> RedactionPlan:
    """Build a plan."""
    return make_plan(keys=keys, patterns=patterns, presets=presets)


def an_export_that_says(text: str) -> ExportTraceServiceRequest:
    """Return spans that hold a text wherever a sender can put one."""
    export = an_export(2)
    resource = export.resource_spans[0].resource
    resource.attributes.add(key="r").value.string_value = text
    resource.attributes[0].value.string_value = text  # service.name, of which the project is made
    scope = export.resource_spans[0].scope_spans[0]
    scope.scope.attributes.add(key="c").value.string_value = text
    for span in scope.spans:
        span.name = span.status.message = text
        for holder in (span, span.events.add(name=text), span.links.add(trace_id=bytes(16), span_id=bytes(8))):
            holder.attributes.add(key="plain").value.string_value = text
            holder.attributes.add(key="untouched").value.int_value = 7
            holder.attributes.add(key="list").value.array_value.values.add(string_value=text)
            holder.attributes.add(key="map").value.kvlist_value.values.add(key="k").value.string_value = text
            holder.attributes.add(key="odd").value.array_value.values.extend(
                [AnyValue(string_value=text), AnyValue(bytes_value=b"x")]
            )
    return export


def bytes_of(batch: SpanBatch) -> bytes:
    """Return the bytes that a batch is stored as."""
    tables = (batch.spans, batch.resources, batch.scopes, batch.logs)
    return b"".join(ipc_stream(table).to_pybytes() for table in tables)


@pytest.mark.parametrize("secret, preset", [("ann@example.org", "email"), (CARD, "card"), (KEY, "key")])
def test_nothing_is_left_anywhere(secret: str, preset: str) -> None:
    """Whatever column a sender put it in, what the preset finds is gone and the words around it stay."""
    batch = a_batch(an_export_that_says(f"before {secret} after"))
    redactor = Redactor(a_plan(preset))
    after = bytes_of(redactor.redact(batch))
    occurrences = bytes_of(batch).count(secret.encode())
    assert occurrences > 20
    assert after.count(secret.encode()) == 0
    assert after.count(f"before {REDACTED} after".encode()) == occurrences
    assert redactor.count >= occurrences - 2  # a list and its elements count once


def test_logs_are_looked_into() -> None:
    """Bodies and attributes of log records are redacted, even if they are maps."""
    logs = some_logs(1)
    record = logs.resource_logs[0].scope_logs[0].log_records[0]
    record.body.kvlist_value.values.add(key="content").value.string_value = f"ask {KEY}"
    record.attributes.add(key="a").value.string_value = KEY
    batch = decode([Request(body=logs.SerializeToString(), signal=LOGS)], received_at_us=1).batch
    after = Redactor(a_plan("key")).redact(batch)
    assert KEY.encode() in bytes_of(batch)
    assert KEY.encode() not in bytes_of(after)
    assert after.logs["body_type"].to_pylist() == ["m"]
    assert REDACTED in json.loads(after.logs["body"][0].as_py())["content"]


def attributes_of(batch: SpanBatch) -> dict[str, tuple[str | None, str]]:
    """Return the attributes of the first span, each with the letter of its type."""
    row = batch.spans.slice(0, 1).to_pylist()[0]
    return {
        key: (value, letter) for (key, value), letter in zip(row["attributes"], row["attribute_types"], strict=True)
    }


def test_types_follow_the_values() -> None:
    """Lists and maps that are still JSON stay so, a redacted number becomes text, and other numbers stay."""
    export = an_export(1)
    span = export.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="card").value.int_value = 4111111111111111
    span.attributes.add(key="pi").value.double_value = 3.5
    span.attributes.add(key="list").value.array_value.values.add(string_value=CARD)
    span.attributes.add(key="numbers").value.array_value.values.add(int_value=4111111111111111)
    span.attributes.add(key="none")
    after = attributes_of(Redactor(a_plan("card", keys=("none",))).redact(a_batch(export)))
    assert after == {
        "card": (REDACTED, "s"),
        "pi": ("3.5", "d"),
        "list": (f'["{REDACTED}"]', "a"),
        "numbers": (f"[{REDACTED}]", "s"),
        "none": (REDACTED, "s"),
    }


HIDDEN, SHOWN = (REDACTED, "s"), ("2.5", "d")


@pytest.mark.parametrize(
    "key, expected",
    [
        ("user.x", HIDDEN),
        ("user.", HIDDEN),
        ("a.user.x", SHOWN),
        ("password", HIDDEN),
        ("passwords", SHOWN),
        ("pin1", HIDDEN),
    ],
)
def test_keys_are_globs_of_the_whole(key: str, expected: tuple[str, str]) -> None:
    """A value is redacted by its key, wherever attributes are, and whatever its type."""
    export = an_export(1)
    span = export.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key=key).value.double_value = 2.5
    export.resource_spans[0].resource.attributes.add(key=key).value.string_value = "told"
    after = Redactor(a_plan(keys=("user.*", "password", "pin?"))).redact(a_batch(export))
    assert attributes_of(after)[key] == expected
    assert (b"told" in bytes_of(after)) is (expected == SHOWN)


def only(text: str, plan: RedactionPlan) -> str:
    """Return a text after redaction."""
    export = an_export(1)
    export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="t").value.string_value = text
    redacted, _ = attributes_of(Redactor(plan).redact(a_batch(export)))["t"]
    assert redacted is not None
    return redacted


@pytest.mark.parametrize(
    "preset, text",
    [
        *(("email", text) for text in ("ann@example.org", "x_y%z@a.b-c.example", "josé@exämple.org", "a@b.co")),
        *(
            ("card", text)
            for text in (CARD, "4111111111111111", "5500-0000-0000-0004", "378282246310005", "6011000990139424")
        ),
        *(("key", text) for text in (KEY, "AKIAIOSFODNN7EXAMPLE", "ghp_" + "a1" * 18, "AIza" + "x" * 35)),
        ("key", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N"),
        ("key", "Bearer abcdefghijklmnop"),
        ("key", "-----BEGIN RSA PRIVATE KEY-----MIIEow\nxx-----END RSA PRIVATE KEY-----"),
        ("key", "tj_" + "x" * 43),
    ],
)
def test_presets_find_their_shapes(preset: str, text: str) -> None:
    """Alone, in a sentence, twice in a row, and at the beginning of a line in JSON, which stays JSON."""
    plan = a_plan(preset)
    assert only(text, plan) == REDACTED
    assert only(f"it is {text}, {text};{text} !", plan) == f"it is {REDACTED}, {REDACTED};{REDACTED} !"
    document = json.dumps({"content": f"hello\n{text}\n\t{text}", "umlaut": f"\xfc{chr(10)}{text}"})
    after = json.loads(only(document, plan))
    assert after["content"] == f"hello\n{REDACTED}\n\t{REDACTED}"
    assert after["umlaut"] == f"\xfc\n{REDACTED}"


@pytest.mark.parametrize(
    "text",
    [
        "task-management-service-of-a-long-name",
        "1795255200000000000",
        "@decorator and user@localhost",
        "12/2028 4111 111",
        "the keyboard is ask-able",
        "eyJ.is.short",
    ],
)
def test_presets_leave_other_texts_alone(text: str) -> None:
    """What only begins like one of the shapes stays."""
    assert only(text, a_plan(*PRESETS)) == text


def test_own_patterns_are_those_of_rules() -> None:
    """A regular expression is found wherever it occurs."""
    assert only("case AB-1234 and ab-77", a_plan(patterns=("(?i)AB-[0-9]+",))) == f"case {REDACTED} and {REDACTED}"


@settings(max_examples=25)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.integers(0, 4))
def test_any_text_around_a_secret_stays(texts: list[str], place: int) -> None:
    """Whatever else a batch holds is stored as without redaction."""
    texts = [text.replace("@", " ") for text in texts]
    plan = a_plan("email")
    batch = a_batch(*(an_export_that_says(text or "x") for text in texts))
    after = Redactor(plan).redact(batch)
    assert (after.spans, after.resources, after.scopes) == (batch.spans, batch.resources, batch.scopes)
    carrier = texts[min(place, len(texts) - 1)]
    assert "ann@example.org" not in only(f"{carrier} ann@example.org {carrier}", plan)


def test_a_part_of_a_batch_is_redacted_alike() -> None:
    """Rows of the middle of larger tables keep their own attributes."""
    batch = a_batch(*(an_export_that_says(f"{number} ann@example.org") for number in range(4)))
    part = batch.slice(3, 2)
    redactor = Redactor(a_plan("email"))
    assert redactor.redact(part).spans == redactor.redact(batch).slice(3, 2).spans


def test_nothing_of_it_reaches_the_disk(tmp_path: Path) -> None:
    """Neither the spool nor the database nor its log holds a redacted value, and redactions are counted."""
    plan: dict[str, Any] = {"keys": ["user.name"], "presets": ["email", "key"]}
    export = an_export_that_says(f"{KEY} of ann@example.org")
    export.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="user.name").value.string_value = "Hildegard"
    seen = b""
    with a_server(tmp_path / "data", redaction=plan, commit_interval_ms=1000) as server:
        url = f"http://{server.otlp_http}/v1/traces"
        assert request(url, "POST", content=export.SerializeToString(), headers=PROTOBUF).status_code == 200
        seen += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
        assert server.store.wait_committed(10)
        assert server.traces.wait_idle(20)
    seen += b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert REDACTED.encode() in seen
    assert [secret for secret in (KEY, "ann@example.org", "Hildegard") if secret.encode() in seen] == []


class Broken(Redactor):
    """A redactor that raises."""

    def redact(self, batch: SpanBatch) -> SpanBatch:
        """Fail if a span has the name `bug`."""
        if "bug" in batch.spans["name"].to_pylist():
            raise RuntimeError("a bug")
        return super().redact(batch)


def test_what_cannot_be_redacted_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request that meets a bug is answered with an error and nothing of it is stored; others go on."""
    monkeypatch.setattr("collector.app.Redactor", Broken)
    with a_server(tmp_path / "data", redaction={"presets": ["email"]}) as server:
        url = f"http://{server.otlp_http}/v1/traces"
        bad, good = an_export(1), an_export(1, trace=1)
        bad.resource_spans[0].scope_spans[0].spans[0].name = "bug"
        codes = [
            request(url, "POST", content=export.SerializeToString(), headers=PROTOBUF).status_code
            for export in (bad, good)
        ]
        assert codes == [500, 200]
        assert server.store.wait_committed(10)
        assert server.store.totals.stored == 1
