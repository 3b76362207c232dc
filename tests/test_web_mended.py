"""Repairs of the second review of the pages: each part that is not tested elsewhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.access import a_closed_server
from tests.browser import PHONE, a_page
from tests.live import until
from tests.matching import write
from tests.paging import Shown, Visit, a_shown_server
from tests.serving import an_export, post
from tests.storing import rows
from tests.test_daily_tasks import now
from tests.test_web_keys import signed_in

if TYPE_CHECKING:
    from playwright.sync_api import Browser

NAMELESS_ID, DEAR_ID = "e1" * 16, "d2" * 16


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with a trace of nothing that has a name, and one that failed and cost something."""
    nameless = now(an_export(NAMELESS_ID, "lonely"))
    nameless.resource_spans[0].resource.Clear()
    with a_shown_server(tmp_path_factory.mktemp("mended") / "data") as server:
        for export in (nameless, a_dear_failure()):
            post(f"http://{server.running.otlp_http}/v1/traces", export.SerializeToString())
        server.running.store.wait_committed(60)
        server.running.traces.wait_idle(60)
        yield server


def a_dear_failure() -> ExportTraceServiceRequest:
    """Build a trace that failed, of a model whose call had a price."""
    export = now(an_export(DEAR_ID, "dear failure", project="dear"))
    span = export.resource_spans[0].scope_spans[0].spans[0]
    span.status.code = 2  # type: ignore[assignment] # an open enum
    span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    span.attributes.add(key="gen_ai.usage.cost").value.double_value = 0.25
    return export


def test_a_long_name_of_a_project_makes_no_page_wider(shown: Shown, browser: "Browser") -> None:
    """The field that offers it on the first page is no wider than a phone."""
    export = now(
        an_export("b7" * 16, "of a long name", project="a project whose name is longer than any phone is wide")
    )
    post(f"http://{shown.running.otlp_http}/v1/traces", export.SerializeToString())
    shown.running.store.wait_committed(60)
    shown.running.traces.wait_idle(60)
    with a_page(browser, shown.origin, viewport=PHONE, has_touch=True) as watch:
        watch.open("/")
        assert "longer than any phone" in watch.page.content()
        assert watch.sideways() <= 0


@pytest.mark.parametrize("field", ["project", "service"])
def test_what_has_no_name_can_be_filtered(shown: Shown, field: str) -> None:
    """Spans whose project or service is empty are found by `(none)`, which the form offers, and no others are."""
    with Visit(shown.origin) as visit:
        page = visit.get(f"/traces?{field}=(none)").text
        assert "(none)" in visit.get("/traces").text
    assert (f"/traces/{NAMELESS_ID}" in page, page.count("data-row")) == (True, 1)


def test_a_span_that_is_not_read_yet_says_so(shown: Shown) -> None:
    """Its type is not known, and the tree does not pretend that it is."""
    trace_id = shown.sample.trace_ids[1]
    path = f"/traces/{trace_id}"
    with Visit(shown.origin) as visit:
        assert "<small>processing" not in visit.get(path).text
        write(shown.running.store, f"UPDATE span SET span_type = NULL WHERE trace_id = '{trace_id}'")
        tree = visit.get(path).text
    spans = f"SELECT count(*) FROM span WHERE trace_id = '{trace_id}'"
    assert rows(shown.running.store, spans) == [(tree.count("<small>processing</small>"),)]


def test_a_preview_is_no_entry_of_the_audit(tmp_path: Path) -> None:
    """A preview of a rule's form leaves no audit entry, and saving the rule does."""
    with a_closed_server(tmp_path / "data") as closed, signed_in(closed, "admin") as visit:
        fields = {"as": "form", "target": "SPAN", "enabled": "1", "evaluator": "tool_error", "shown": "tool_error"}
        for name in ("a", "ab", "abc"):
            assert visit.send("/rules/new", "/rules/new", do="preview", name=name, **fields).is_success
        assert visit.send("/rules/new", "/rules/new", do="save", name="abc", **fields).status_code == 303
        page = until(lambda: visit.get("/audit").text, lambda text: "/rules/new<" in text)
        assert page.count("/rules/new<") == 1


def test_a_phone_shows_what_matters_of_a_trace(shown: Shown, browser: "Browser") -> None:
    """Status, name, time and cost of each trace are to be seen without moving sideways."""
    with a_page(browser, shown.origin, viewport=PHONE, has_touch=True) as watch:
        watch.open("/traces?project=dear")
        row = watch.page.locator("[data-row]")
        for text in ("dear failure", "1 error", "$0.25", "ago"):
            place = row.get_by_text(text).first
            assert place.is_visible(), text
            box = place.bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= PHONE["width"], text
        assert watch.sideways() <= 0
