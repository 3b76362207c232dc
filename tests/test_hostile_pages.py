"""Traces with very many of everything: their pages show some, tell how many more there are, and link to all."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from collector.conventions.pairing import ReportedRun
from collector.conventions.runs_beside import _MAX_NEAR, Beside
from collector.web.spans.conversation import conversation
from storage.records import Message
from tests.live import until
from tests.serving import an_export, post
from tests.test_connections import an_api

TRACE = "ab" * 16


def test_a_page_shows_some_of_very_many(tmp_path: Path) -> None:
    """Attributes of spans and resources, events, links and parts of messages end with a link to the omitted ones."""
    export = an_export(TRACE, "span")
    resource, span = export.resource_spans[0].resource, export.resource_spans[0].scope_spans[0].spans[0]
    for number in range(3_000):
        span.attributes.add(key=f"span-{number}").value.string_value = "x"
        resource.attributes.add(key=f"resource-{number}").value.string_value = "x"
        span.events.add(name=f"event-{number}")
        span.links.add(trace_id=b"x" * 16, span_id=b"%08d" % number)
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"part-{number}."} for number in range(5_000)]}]
    span.attributes.add(key="gen_ai.input.messages").value.string_value = json.dumps(messages)
    with an_api(tmp_path) as (api, server):
        post(f"http://{server.otlp_http}/v1/traces", export.SerializeToString())
        until(lambda: api.get(f"/traces/{TRACE}").text, lambda text: "part-0." in text)
        page = api.get(f"/traces/{TRACE}").text
    counts = {name: page.count(name) for name in (">span-", ">resource-", ">event-", ">part-")}
    assert counts == {">span-": 198, ">resource-": 198, ">event-": 100, ">part-": 2_000}
    for left_out in ("2,802 more", "2,900 more events", "2,900 more links"):
        assert f'<a href="/traces/{TRACE}/otlp">{left_out}</a>' in page
    assert "3,000 more items</a>" in page


def test_messages_share_the_parts_that_are_shown() -> None:
    """One long message among short ones is shown with many parts, and of many long ones each with some."""

    def a_message(parts: int) -> Message:
        return {"role": "user", "parts": [{"type": "text", "content": "x"}] * parts}

    shown = conversation([a_message(1_500), a_message(10), a_message(10)])
    assert [(len(each.pieces), each.hidden) for each in shown] == [(1_500, 0), (10, 0), (10, 0)]
    shown = conversation([a_message(3_000)] * 100)
    assert {(len(each.pieces), each.hidden) for each in shown} == {(15, 2_985)}


def test_runs_of_one_tool_are_not_all_compared() -> None:
    """Each run is compared with the nearest of its name, so a trace of thousands does not take their square."""
    looked = []

    class Libraries(dict[int, Any]):
        def __getitem__(self, key: int) -> Any:
            looked.append(key)
            return super().__getitem__(key)

    beside = Beside()
    beside._libraries = Libraries()
    for number in range(200):
        member: Any = SimpleNamespace(tool_name="search", scope="library", start_ns=number)
        run = ReportedRun(span=member, key=None, call_id=None)
        assert beside.of(run) is None
        beside.add(run)
    assert len(looked) <= 200 * 2 * _MAX_NEAR
