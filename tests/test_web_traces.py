"""Traces in the browser: found by filters, looked at whole, hostile ones harmless, long ones quick, and kept apart."""

import json
import random
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.web.spans.conversation import call_title, calls_beside, conversation, failed_calls
from collector.web.text import block, json_block, one_line, value_block
from storage.ingest.windows import Limits
from storage.records import JsonValue
from tests.access import a_closed_server, request
from tests.browser import a_page
from tests.conventions.making import a_span, read_all
from tests.conventions.test_columnar import a_request
from tests.live import until
from tests.paging import Shown, Visit, a_shown_server
from tests.serving import PROTOBUF, an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.pages("traces")

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\u202eevil\u202c\x1b[31m\x00</pre></bdi>"
HOSTILE_ID, LONG_ID, CUT_ID = "ab" * 16, "cd" * 16, "c0" * 16


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with the sample, a hostile trace and a long one."""
    with a_shown_server(tmp_path_factory.mktemp("traces") / "data") as server:
        url = f"http://{server.running.otlp_http}/v1/traces"
        for export in (a_hostile_export(), a_long_export(10_000)):
            post(url, export.SerializeToString())
        stored = "SELECT count(*) FROM spans WHERE span_type IS NOT NULL"
        until(
            lambda: server.running.store.queries.sql(stored, max_rows=1, timeout_s=10).rows[0][0],
            lambda count: count == 10_000 + 1 + 15,
            within_s=120,
        )
        yield server


def a_hostile_export() -> ExportTraceServiceRequest:
    """Everything that a span can say is an attack, and its input is two megabytes."""
    export = an_export(HOSTILE_ID, HOSTILE, project=HOSTILE)
    span = export.resource_spans[0].scope_spans[0].spans[0]
    span.status.message, span.status.code = HOSTILE, 2  # type: ignore[assignment] # an open enum
    messages = [{"role": HOSTILE, "parts": [{"type": "text", "content": HOSTILE * 20_000}]}]
    call = {"type": "tool_call", "id": "1", "name": HOSTILE, "arguments": {HOSTILE: HOSTILE}}
    messages.append(
        {
            "role": "assistant",
            "parts": [call, {"type": "uri", "modality": "image", "uri": "https://evil.example/x.png"}],
        }
    )
    for key, value in (
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.input.messages", json.dumps(messages)),
        (HOSTILE, HOSTILE),
        ("session.id", HOSTILE),
    ):
        span.attributes.add(key=key).value.string_value = value
    event = span.events.add(name=HOSTILE)
    event.attributes.add(key=HOSTILE).value.string_value = HOSTILE
    span.links.add(trace_id=b"x" * 16, span_id=b"y" * 8)
    return export


def a_long_export(spans: int) -> ExportTraceServiceRequest:
    """Return one trace of many spans, whose names hold their numbers."""
    return an_export(LONG_ID, *(f"step {number}" for number in range(spans)), project="long", at_s=1)


def names_on(visit: Visit, path: str) -> list[str]:
    """Return the traces that a list shows, by the ids in their links."""
    page = visit.get(path)
    assert page.is_success, page.text
    return [piece[:32] for piece in page.text.split('data-open href="/traces/')[1:]]


def test_filters_find_what_they_say(shown: Shown) -> None:
    """Each filter of the address finds the traces that it is about, and several together those that all are about."""
    first, second, third = shown.sample.trace_ids
    models = f"SELECT max(model) FROM spans WHERE trace_id = '{third}'"
    ((model,),) = shown.running.store.queries.sql(models, max_rows=1, timeout_s=10).rows
    with Visit(shown.origin) as visit:
        for query, expected in (
            ("service=travel-agent", {third}),
            ("status=error", {third, HOSTILE_ID}),
            ("status=ok&project=sample", {first, second}),
            ("text=BROKEN+LAMP", {first}),
            ("session=conv-travel-17", {third}),
            (f"model={model}&status=error", {third}),
            ("name=answer", {second}),
            ("rule=tool+errors&verdict=failed", {third}),
            ("rule=tool+errors&verdict=passed", {first}),
            ("verdict=any", {first, third}),
            ("verdict=any&rule=tool+errors", {first, third}),
            ("verdict=any&rule=nobody", set()),
            ("attribute=" + quote("service.name=docs-assistant"), {second}),
            ("since=1h&project=sample", {first, second, third}),
            ("project=nobody", set()),
            ("session=" + quote(HOSTILE), {HOSTILE_ID}),
        ):
            assert set(names_on(visit, f"/traces?{query}")) == expected, query
        for wrong in ("since=ever", "from=yesterday", "attribute=nothing", "before=x", "verdict=good", "status=fine"):
            assert visit.get(f"/traces?{wrong}").status_code == 400


@pytest.mark.parametrize(
    "wrong, form", [("duration=1s", "seconds without a unit, such as 1.5"), ("cost=$1", "USD, such as 0.05")]
)
def test_an_amount_that_is_no_number_names_the_accepted_form(shown: Shown, wrong: str, form: str) -> None:
    """The message has the unit and an example."""
    with Visit(shown.origin) as visit:
        answer = visit.get(f"/traces?{wrong}")
    assert (answer.status_code, f"is not a number of {form}" in answer.text) == (400, True)


def test_a_filter_by_time_is_a_time_in_words(shown: Shown) -> None:
    """Its chip has the time as the page writes times, and not as the address has it."""
    with Visit(shown.origin) as visit:
        page = visit.get("/traces?from=2026-11-20T10:00:00.000000001Z&to=2026-11-20T12:00:00%2B02:00").text
    chips = " ".join(re.sub("<[^>]*>", "", page.partition('class="chips"')[2].partition("</p>")[0]).split())
    assert ("from 2026-11-20 10:00:00 UTC" in chips, "to 2026-11-20 10:00:00 UTC" in chips) == (True, True), chips


def test_the_api_takes_the_same_filters(shown: Shown) -> None:
    """GET /api/v1/traces finds by them too, goes on with `before`, and refuses to count pages then."""
    url = f"{shown.origin}/api/v1/traces?project=sample&status=ok"
    first = request(f"{url}&size=1").json()
    second = request(f"{url}&size=1&before={first['next']}").json()
    pages = [page["content"][0]["traceId"] for page in (first, second)]
    assert pages == [shown.sample.trace_ids[1], shown.sample.trace_ids[0]]
    assert (first["last"], second["last"], second["next"]) == (False, True, None)
    assert request(f"{url}&page=1").status_code == 400
    for far in ("from=9999-12-31T00:00:00Z", "to=0001-01-01T00:00:00Z", f"before={(1 << 63) - 1}", "before=0"):
        assert request(f"{url}&{far}").status_code == 200, far
    assert request(f"{shown.origin}/api/v1/traces?attribute=x").status_code == 400


def test_a_trace_shows_its_spans_and_why_it_failed(shown: Shown, browser: "Browser") -> None:
    """From the list to the trace, to its failed tool, to the conversation: by links that can be shared."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?status=error&project=sample")
        watch.page.click("[data-open]")
        watch.page.wait_for_selector(".verdict-badges .badge.bad")
        watch.page.click("text=execute_tool search_flights")
        watch.page.wait_for_url("**span=*")
        assert "search_flights" in watch.page.inner_text("#span")
        watch.open(watch.page.url.removeprefix(shown.origin))
        assert "Arguments" in watch.page.inner_text("#span")
        watch.page.click("text=Conversation")
        watch.page.wait_for_selector(".chat-turn.user")
        assert "flight from Vienna" in watch.page.inner_text(".chat-turn.user")


def test_hostile_spans_do_nothing(shown: Shown, browser: "Browser") -> None:
    """Nothing that a span says runs, is loaded, or leaves its place, on any page that shows it."""
    beside = f"/compare?with={shown.trace_id}&show=all"
    views = ("", "?view=conversation", "?view=agents", "?view=verdicts", "/judge", beside)
    pages = [f"/traces/{HOSTILE_ID}{rest}" for rest in views]
    for path in ("/traces", "/traces?session=" + quote(HOSTILE), *pages):
        with a_page(browser, shown.origin) as watch:
            watch.page.on("dialog", lambda dialog: pytest.fail(dialog.message))
            watch.open(path)
            watch.page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
            assert watch.page.title() != "owned"
            assert watch.page.locator("img, script:not([src])").count() == 0
            assert watch.page.locator("main").count() == 1
            assert watch.sideways() <= 0
            assert len(watch.page.content()) < 300_000
            assert not {"\u202e", "\x1b"} & set(watch.page.inner_text("main"))


def test_the_whole_of_a_long_text_is_text(shown: Shown) -> None:
    """A text that a page cuts is served whole, as plain text that no browser takes for anything else."""
    with Visit(shown.origin) as visit:
        page = visit.get(f"/traces/{HOSTILE_ID}").text
        assert "more characters" in page
        whole = visit.get(f"/traces/{HOSTILE_ID}/spans/0000000000000001/text?of=input_messages")
        assert whole.headers["content-type"] == "text/plain; charset=utf-8"
        assert (whole.headers["x-content-type-options"], "sandbox" in whole.headers["content-security-policy"]) == (
            "nosniff",
            True,
        )
        assert whole.text.count("document.title") > 20_000
        attribute = visit.get(f"/traces/{HOSTILE_ID}/spans/0000000000000001/text?of={quote('attribute:' + HOSTILE)}")
        assert attribute.text == HOSTILE
        for nothing in ("of=__class__", "of=attribute:none"):
            assert visit.get(f"/traces/{HOSTILE_ID}/spans/0000000000000001/text?{nothing}").status_code == 404
        assert visit.get(f"/traces/{HOSTILE_ID}/spans/nothing/text").status_code == 404
        raw = visit.get(f"/traces/{shown.trace_id}/otlp")
        assert len(raw.json()["resourceSpans"]) >= 1


def test_a_long_trace_is_shown_in_parts(shown: Shown) -> None:
    """Of ten thousand spans a page holds a few hundred, which hold the chosen one, and links lead to the others."""
    with Visit(shown.origin) as visit:
        page = visit.get(f"/traces/{LONG_ID}").text
        assert (page.count("data-row"), len(page) < 500_000) == (300, True)
        assert "Later in the tree" in page
        chosen = visit.get(f"/traces/{LONG_ID}?span={9_000:016x}").text
        assert "step 8999" in chosen.partition('aria-current="true"')[2][:300]
        assert "Earlier in the tree" in chosen
        last = visit.get(f"/traces/{LONG_ID}?at=9900").text
        assert last.count("data-row") == 100
        assert visit.get(f"/traces/{LONG_ID}?at=99999999&span=nothing&view=nothing").is_success


def test_sums_of_a_part_of_a_trace_say_so_on_pages(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a trace that is too long to be summed whole, lists and pages show how many spans its sums cover."""
    for name in ("_TRACE_LIMITS", "_LONG_TRACE_LIMITS"):
        monkeypatch.setattr(f"collector.reading.updater.{name}", Limits(rows=10, nbytes=1 << 30))
    export = an_export(CUT_ID, *(f"step {number}" for number in range(25)), project="cut", at_s=2)
    for span in export.resource_spans[0].scope_spans[0].spans:
        del span.attributes[:]
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        span.attributes.add(key="session.id").value.string_value = "cut"
        span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 5
    post(f"http://{shown.running.otlp_http}/v1/traces", export.SerializeToString())
    with Visit(shown.origin) as visit:
        listed = until(lambda: visit.get("/api/v1/sessions?project=cut").json()["content"], bool)
        assert [(each["spanCount"], each["summedSpanCount"]) for each in listed] == [(25, 10)]
        for path in (
            "/traces?project=cut",
            f"/traces/{CUT_ID}",
            f"/traces/{CUT_ID}/preview",
            "/sessions?project=cut",
            "/sessions/cut",
        ):
            assert "first 10 spans" in re.sub("<[^>]*>", "", visit.get(path).text), path


def test_live_shows_what_comes(shown: Shown, browser: "Browser") -> None:
    """With live on, a trace that arrives stands at the top without a click."""
    name = f"live {random.randrange(1 << 30)}"
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?project=live")
        watch.page.get_by_role("switch", name="Live").click()
        watch.page.wait_for_url("**live=1*")
        export = an_export(f"{random.getrandbits(128):032x}", name, project="live", at_s=9)
        post(f"http://{shown.running.otlp_http}/v1/traces", export.SerializeToString())
        watch.page.wait_for_selector(f"text={name}")


def test_tenants_and_roles_see_what_is_theirs(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Another tenant's trace is nowhere, a viewer is offered what he may do only, and an admin keeps and deletes."""
    with a_closed_server(tmp_path_factory.mktemp("tenants") / "data") as server:
        theirs, ours = "aa" * 16, "bb" * 16
        for trace_id, key in ((theirs, "editor of other"), (ours, "editor of acme")):
            body = an_export(trace_id, "secret plan").SerializeToString()
            headers = {"content-type": PROTOBUF}
            server.ask("POST", "/api/v1/traces", key=server.keys[key], content=body, headers=headers)
        server.running.store.wait_committed(30)
        origin = f"http://{server.running.http}"
        with Visit(origin) as viewer, Visit(origin) as admin:
            for visit, key in ((viewer, "viewer of acme"), (admin, "admin of acme")):
                assert visit.send("/sign-in", "/sign-in", key=server.keys[key]).status_code == 303
            assert names_on(viewer, "/traces") == [ours]
            for path in (
                f"/traces/{theirs}",
                f"/traces/{theirs}/otlp",
                f"/traces/{theirs}/spans/0000000000000001/text",
            ):
                assert viewer.get(path).status_code == 404
            assert viewer.get(f"/traces/{ours}?tenant=other").status_code == 403
            page = viewer.get(f"/traces/{ours}").text
            assert ("/pin" in page, "/delete" in page) == (False, False)
            assert admin.send(f"/traces/{ours}", f"/traces/{ours}/pin", keep="1", tenant="acme").status_code == 303
            assert "Pinned by" in admin.get(f"/traces/{ours}").text
            assert admin.send(f"/traces/{ours}", f"/traces/{theirs}/delete", tenant="other").status_code == 403
            assert admin.send(f"/traces/{ours}", f"/traces/{ours}/delete", tenant="acme").status_code == 303
            assert admin.get(f"/traces/{ours}").status_code == 404


def test_texts_are_cut_and_spelled_out() -> None:
    """Invisible characters are escaped, long texts are cut, and the lines of a block stay."""
    assert one_line("a\nb\u202e<b>") == '<bdi>a b<span class="ctl">\\u202e</span>&lt;b&gt;</bdi>'
    assert one_line("x" * 50, 10) == '<bdi>xxxxxxxxxx<span class="cut">…</span></bdi>'
    assert one_line(" a" + " " * 20 + "b", 10) == "<bdi>a b</bdi>"
    assert block("a\r\nb\tc\x00") == '<pre class="text" dir="auto">a\nb\tc<span class="ctl">\\x00</span></pre>'
    assert "more characters" in block("line\n" * 1_000, "/whole")
    assert 'href="/whole?a=1&amp;b=%22"' in block("x" * 9_000, "/whole?a=1&b=%22")


class _Endless(list[JsonValue]):
    """A list that ends with a failure if it is read too far."""

    def __iter__(self) -> Iterator[JsonValue]:
        yield from range(20_000)
        raise AssertionError("the value was written whole")


@pytest.mark.parametrize("value", [_Endless([0]), {"a": {"b": _Endless([0])}}])
def test_a_long_value_is_written_as_far_as_it_is_shown(value: JsonValue) -> None:
    """Of a value with very many elements the beginning alone is written, in a block and in the title of a call."""
    assert "at least" in value_block(value, "/whole")
    assert "more characters" in json_block(value)
    assert len(call_title("find", {"q": value})) == 90


def test_a_result_is_folded_into_its_call() -> None:
    """A result of an earlier call is shown with the call and not again, and one without a call stands by itself."""
    call: dict[str, JsonValue] = {"type": "tool_call", "id": "1", "name": "find", "arguments": {"q": "x"}}
    back: dict[str, JsonValue] = {"type": "tool_call_response", "id": "1", "response": [1]}
    alone: dict[str, JsonValue] = {"type": "tool_call_response", "id": "2", "response": "?"}
    messages = conversation(
        [{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [back]}, {"role": "tool", "parts": [alone]}]
    )
    assert [[(piece.kind, piece.result, piece.has_result) for piece in each.pieces] for each in messages] == [
        [("call", [1], True)],
        [("result", None, False)],
    ]


def test_messages_show_the_last_execution_of_a_call() -> None:
    """A call that failed and was executed again did not fail; what the messages do not show stands beside them."""
    spans = [
        a_span({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": call_id}, status_code=status)
        for call_id, status in (("1", 2), ("1", 0), ("2", 0), ("2", 0), ("3", 2))
    ]
    calls = read_all(*spans).tool_calls
    assert failed_calls(calls).keys() == {"3"}
    parts: list[JsonValue] = [{"type": "tool_call", "id": call_id, "name": "find"} for call_id in "123"]
    beside = calls_beside([{"role": "assistant", "parts": parts}], calls)
    assert [call.span_id for call in beside] == [spans[place].span_id for place in (0, 2)]


def test_times_do_not_run_backwards(shown: Shown) -> None:
    """The list goes from the newest trace to the oldest."""
    with Visit(shown.origin) as visit:
        page = visit.get("/traces").text
    times = [piece.partition('"')[0] for piece in page.split('class="ago" datetime="')[1:]]
    assert times == sorted(times, reverse=True)


def test_a_trace_without_content_names_the_setting(shown: Shown) -> None:
    """The page says that content was not captured and how to have it; `traces show` prints the same notes."""
    silent = a_span(
        {"gen_ai.operation.name": "chat"}, trace_id="5e" * 16, scope="opentelemetry.instrumentation.openai_v2"
    )
    post(f"http://{shown.running.otlp_http}/v1/traces", a_request([silent]).SerializeToString())
    with Visit(shown.origin) as visit:
        page = until(lambda: visit.get(f"/traces/{silent.trace_id}").text, lambda text: "not captured" in text)
        notice = page.partition("not captured:")[2].partition("</p>")[0]
        assert "set OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental" in notice
        assert notice.endswith("and send its log records too</bdi>.")
        assert "were not captured" not in visit.get(f"/traces/{LONG_ID}").text


def test_a_blank_text_is_shown_as_blank() -> None:
    """A recorded blank text is marked as blank."""
    assert "(blank)" in block("")
    assert "(blank)" in value_block(" \n")
    assert "(blank)" not in block("none")
