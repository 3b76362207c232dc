"""The list of traces in a browser: its filters and columns, and the actions on chosen rows."""

import re
from collections.abc import Iterator
from html import unescape
from typing import TYPE_CHECKING

import pytest

from tests.access import OPERATOR_KEY, Closed, a_closed_server, request
from tests.browser import PHONE, a_page
from tests.live import until
from tests.paging import Shown, Visit, a_review, a_shown_server, asking, own_rule, token_on
from tests.serving import PROTOBUF, an_export, post

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.browser import Watch

pytestmark = pytest.mark.pages("offline", "traces")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Yield one server for all, with the sample."""
    with a_shown_server(tmp_path_factory.mktemp("list") / "data") as server:
        yield server


def listed(visit: Visit, path: str) -> list[str]:
    """Return the ids of the traces that a list shows."""
    page = visit.get(path)
    assert page.is_success, page.text
    return re.findall(r'data-open href="/traces/([0-9a-f]{32})', page.text)


def test_without_scripts_a_link_leads_to_volume_and_values(shown: Shown) -> None:
    """The list names the page, each column of which is a list of as many traces as it says, and each value too."""
    with Visit(shown.origin) as visit:
        (overview,) = set(re.findall(r'<a href="(/traces/overview[^"]*)"', visit.get("/traces?project=sample").text))
        text = visit.get(unescape(overview)).text
        assert "3 traces" in text
        volume = text.partition("Latency, median")[0]
        columns = re.findall(r'<a href="([^"]+)" aria-label="[^"]*: (\d+) traces?', volume)
        assert sum(int(count) for _, count in columns) == 3
        for address, count in columns:
            shown_traces = listed(visit, unescape(address))
            assert (len(shown_traces), "project=sample" in address) == (int(count), True)
        values = text.partition('id="values"')[2]
        links = re.findall(
            r'<a href="([^"]+)"( aria-current="true")?><span class="what">(?:<bdi>)?([^<]+).*?title="(\d+)"', values
        )
        assert {name for _, _, name, _ in links} >= {"with errors", "travel-agent", "tool errors", "sample"}
        for address, is_set, name, count in links:
            everything = listed(visit, "/traces")
            expected = everything if is_set else range(int(count))
            assert len(listed(visit, unescape(address))) == len(expected), name


def test_values_that_are_not_shown_are_not_counted(shown: Shown, browser: "Browser") -> None:
    """In a window that has no room for them they come once they are opened; before, volume alone is asked for."""
    with Visit(shown.origin) as visit:
        text = visit.get("/traces/overview?project=sample&values=none").text
        assert ("3 traces" in text, 'id="values"' in text) == (True, False)
    with a_page(browser, shown.origin) as watch:
        queries: list[str] = []
        watch.page.on("request", lambda request: queries.append(request.url))
        watch.open("/traces?project=sample")
        watch.page.get_by_role("region", name="Latency").first.wait_for()
        assert [url.partition("?")[2] for url in queries if "/overview" in url] == ["project=sample&values=none"]
        watch.page.get_by_text("Facets", exact=True).click()
        watch.page.get_by_role("region", name="Status").get_by_role("link", name="with errors").wait_for()
        assert [url.partition("?")[2] for url in queries if "/overview" in url][1:] == ["project=sample"]


def test_a_filter_that_is_wrong_is_told_beside_the_list(shown: Shown) -> None:
    """Nothing is counted then, and the page says which filter it is."""
    with Visit(shown.origin) as visit:
        answer = visit.get("/traces/overview?since=ever")
        assert (answer.status_code, "since: " in answer.text) == (400, True)
        assert "data-beside" not in visit.get("/traces?since=ever").text


def test_volume_and_values_come_after_the_list(shown: Shown, browser: "Browser") -> None:
    """A column narrows the time to it; a value adds its filter, and takes it away again."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        pictures = watch.page.get_by_role("region", name="Traces, and those with errors")
        pictures.locator("a").first.click()
        watch.page.wait_for_url("**/traces?*from=*to=*")
        assert watch.page.locator("[data-row]").count() in {1, 2, 3}
        watch.open("/traces")
        watch.page.get_by_text("Facets", exact=True).click()
        watch.page.get_by_role("region", name="Status").get_by_role("link", name="with errors").click()
        watch.page.wait_for_url("**/traces?status=error")
        assert watch.page.locator("[data-row]").count() == 1
        watch.page.get_by_text("Facets", exact=True).click()
        assert watch.scan() == []
        watch.page.get_by_role("region", name="Status").get_by_role("link", name="remove the filter").click()
        watch.page.wait_for_url("**/traces")
        assert watch.page.locator("[data-row]").count() == 3


def test_a_wide_window_has_values_at_the_side(shown: Shown, browser: "Browser") -> None:
    """There they are open, beside the list, and nothing is wider than the window."""
    with a_page(browser, shown.origin, viewport={"width": 1500, "height": 900}) as watch:
        watch.open("/traces")
        watch.page.get_by_role("region", name="Project").get_by_role("link", name="sample").wait_for()
        values, rows = (watch.page.locator(name).bounding_box() for name in ("#facets", "#traces"))
        assert values is not None
        assert rows is not None
        assert values["x"] + values["width"] < rows["x"]
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)


@pytest.mark.parametrize("size", [(1280, 800), (1440, 900), (1920, 1080)])
def test_the_head_of_the_list_leaves_room_for_it(shown: Shown, browser: "Browser", size: tuple[int, int]) -> None:
    """The table begins within the first quarter of the screen at 1440x900, and no column is cut off from 1280 on."""
    width, height = size
    with a_page(browser, shown.origin, viewport={"width": width, "height": height}) as watch:
        watch.open("/traces")
        watch.page.locator("#volume svg").last.wait_for()
        watch.page.locator("#facets").wait_for(state="visible")
        table = watch.page.locator("#traces .table")
        box = table.bounding_box()
        assert box is not None
        assert box["y"] <= 225
        assert table.evaluate("each => each.scrollWidth - each.clientWidth") == 0
        assert watch.scan() == []


def heads(text: str) -> list[str]:
    """Return the heads of the columns of a list, without those of boxes."""
    head = text.partition("<thead>")[2].partition("</thead>")[0]
    return re.findall(r"<(?:a class=\"sort\"[^>]*|th scope=\"col\"(?! class=\"pick\")[^>]*)>([A-Z][a-z]+)", head)


@pytest.mark.parametrize("width", [1280, 390])
def test_closed_values_share_the_line_of_the_columns(shown: Shown, browser: "Browser", width: int) -> None:
    """Closed value filters take no room from the list and cover nothing, and actions on chosen rows move nothing."""
    with a_page(browser, shown.origin, viewport={"width": width, "height": 800}) as watch:
        watch.open("/traces?project=sample")
        values, columns = watch.page.locator("#facets > summary"), watch.page.locator(".look > summary")
        values.wait_for(state="visible")
        both = watch.page.locator("#facets > summary, .look > summary")
        # Measure both at one moment: the content above them may still be growing.
        boxes = both.evaluate_all("parts => parts.map(part => part.getBoundingClientRect().toJSON())")
        assert abs(boxes[0]["y"] - boxes[1]["y"]) < boxes[1]["height"]
        assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]
        before = watch.page.locator("#traces").bounding_box()
        watch.page.locator("tbody [name=trace]").first.check()
        assert (values.is_visible(), columns.is_visible()) == (True, True)
        assert watch.page.locator("#chosen").get_by_role("button").first.is_visible()
        assert watch.page.locator("#traces").bounding_box() == before
        watch.page.locator("tbody [name=trace]").first.uncheck()
        values.click()
        watch.page.locator("#values").get_by_role("link", name=re.compile("^with errors")).wait_for()
        assert watch.page.locator("#facets").bounding_box()["width"] > width / 2  # type: ignore[index] # it is visible


def test_columns_are_chosen_and_remembered(shown: Shown) -> None:
    """Ticked columns stand in the address, so that it can be shared, and are kept for lists whose address has none."""
    usual = ["Trace", "Started", "Verdicts", "Project", "Duration", "Tokens", "Cost", "Spans"]
    with Visit(shown.origin) as visit, Visit(shown.origin) as other:
        assert heads(visit.get("/traces").text) == usual
        ticked = "&".join(f"columns={name}" for name in ("none", "cost", "model", "session", "scores", "release"))
        sent = visit.get(f"/traces?remember=1&{ticked}&density=compact&project=sample")
        address = "/traces?project=sample&columns=scores%2Cmodel%2Crelease%2Csession%2Ccost&density=compact"
        assert sent.headers["location"] == address
        expected = ["Trace", "Scores", "Models", "Releases", "Session", "Cost"]
        for reader, path in ((visit, "/traces"), (other, address)):
            text = reader.get(path).text
            assert (heads(text), 'class="trace-list compact"' in text) == (expected, True)
        text = visit.get("/traces").text
        (chosen,) = shown.running.store.queries.sql(
            "SELECT max(model) FROM spans WHERE model IS NOT NULL", max_rows=1, timeout_s=10
        ).rows[0]
        assert f"/traces?model={chosen}" in unescape(text)
        assert "/traces?session=conv-travel-17" in unescape(text)
        assert heads(other.get("/traces").text) == usual
        assert heads(visit.get("/traces?columns=none").text) == ["Trace"]
        assert heads(visit.get("/traces?columns=colour").text) == expected


def test_the_look_is_chosen_in_a_browser(shown: Shown, browser: "Browser") -> None:
    """Ticks in the box of columns change the list, whose filters stay, and the next list has them."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?project=sample")
        watch.page.get_by_text("Columns", exact=True).first.click()
        box = watch.page.get_by_role("form", name="Columns")
        box.get_by_label("User").check()
        box.get_by_label("Verdicts").uncheck()
        box.get_by_label("Compact").check()
        box.get_by_role("button", name="Show").click()
        watch.page.wait_for_url("**/traces?project=sample&columns=*density=compact")
        watch.open("/traces")
        names = watch.page.locator(".trace-list thead th").all_inner_texts()
        assert ("User" in names, "Verdicts" in names) == (True, False)
        assert watch.page.locator(".trace-list.compact").count() == 1
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)


def test_a_row_is_previewed_beside_the_list(shown: Shown, browser: "Browser") -> None:
    """A click on a row, or p, shows its trace in short; j and k go on with it, Escape closes it, and Enter opens."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces")
        names = watch.page.locator("[data-open]").all_inner_texts()
        panel = watch.page.get_by_role("region", name="Preview of a trace")
        watch.page.locator("[data-row] .when").first.click()
        panel.get_by_role("heading", name=names[0]).wait_for()
        assert panel.get_by_text("Verdicts").is_visible()
        assert watch.scan() == []
        watch.page.keyboard.press("j")
        panel.get_by_role("heading", name=names[1]).wait_for()
        watch.page.keyboard.press("k")
        panel.get_by_role("heading", name=names[0]).wait_for()
        watch.page.keyboard.press("Escape")
        panel.wait_for(state="hidden")
        watch.page.keyboard.press("j")
        watch.page.keyboard.press("p")
        panel.get_by_role("heading", name=names[1]).wait_for()
        assert watch.page.url == f"{shown.origin}/traces"
        second = watch.page.locator("[data-open]").nth(1).get_attribute("href")
        watch.page.keyboard.press("Enter")
        watch.page.wait_for_url(f"**{second}*")


def test_a_preview_on_a_phone_covers_the_list(shown: Shown, browser: "Browser") -> None:
    """A touch of a row shows it, and a button puts it away; the name of the trace leads to the trace as ever."""
    with a_page(browser, shown.origin, viewport=PHONE, has_touch=True, color_scheme="dark") as watch:
        watch.open("/traces")
        watch.page.locator("[data-row] .took").first.tap()
        panel = watch.page.get_by_role("region", name="Preview of a trace")
        panel.get_by_role("link", name="Open the trace").wait_for()
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
        panel.get_by_role("button", name="Close").tap()
        panel.wait_for(state="hidden")
        watch.page.locator("[data-open]").first.tap()
        watch.page.wait_for_url("**/traces/*")


def test_a_preview_tells_errors_and_says_what_it_leaves_out(shown: Shown) -> None:
    """The trace that failed names the span, with a link; one that is not here is 404."""
    failed = shown.sample.trace_ids[2]
    with Visit(shown.origin) as visit:
        text = visit.get(f"/traces/{failed}/preview").text
        errors = text.partition("<h3>Errors</h3>")[2].partition("</section>")[0]
        assert re.search(rf'href="/traces/{failed}\?span=[0-9a-f]{{16}}"', errors)
        assert visit.get(f"/traces/{'9' * 32}/preview").status_code == 404


def test_a_preview_tells_what_it_does_not_know(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown start is not the epoch, and errors behind the spans that are searched are counted."""
    monkeypatch.setattr("collector.web.traces.trace_preview._MOST_SPANS", 1)
    export = an_export("c4" * 16, "timeless", "broken")
    timeless, broken = export.resource_spans[0].scope_spans[0].spans
    timeless.start_time_unix_nano = 0
    broken.status.code = 2  # type: ignore[assignment] # an open enum
    post(f"http://{shown.running.otlp_http}/v1/traces", export.SerializeToString())
    shown.running.store.wait_committed(60)
    shown.running.traces.wait_idle(60)
    with Visit(shown.origin) as visit:
        page = visit.get(f"/traces/{'c4' * 16}/preview").text
    assert re.sub("<[^>]+>", "", page.partition("<dt>Duration</dt>")[2].partition("</div>")[0]) == "-"
    errors = re.sub("<[^>]+>", "", page.partition("<h3>Errors</h3>")[2].partition("</section>")[0])
    assert errors.strip() == "1 error after the first 1 spans"


def choose(watch: "Watch", *, rows: int, action: str) -> None:
    """Tick the first rows of the list, and choose an action."""
    for number in range(rows):
        watch.page.locator('[data-row] input[name="trace"]').nth(number).check()
    watch.page.get_by_role("form", name="Selected traces").get_by_role("button", name=action, exact=True).click()


def test_chosen_traces_become_items(shown: Shown, browser: "Browser") -> None:
    """Two ticked rows become two items of a new dataset, with the output as the expectation on request."""
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?project=sample")
        assert not watch.page.get_by_role("button", name="Add to a dataset").is_visible()
        choose(watch, rows=2, action="Add to a dataset")
        watch.page.get_by_role("heading", name="2 traces").wait_for()
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
        watch.page.get_by_label("Name of the new dataset").fill("chosen in a browser")
        watch.page.get_by_label("The recorded output of each trace is correct").check()
        watch.page.get_by_role("button", name="Add as a new version").click()
        watch.page.wait_for_url("**/datasets/*/versions/1")
    with asking(shown) as api:
        items = api.items(name="chosen in a browser")
    assert {item["source"]["traceId"] for item in items} < set(shown.sample.trace_ids)
    assert len(items) == 2
    assert all(item["expectedOutputs"] for item in items)


def test_a_dataset_is_made_with_its_items_or_not(shown: Shown) -> None:
    """If one of the chosen traces is not there, no dataset is made, and the same name serves the next attempt."""
    present, page = f"{shown.sample.trace_ids[0]}.", "/traces/chosen/dataset"
    with Visit(shown.origin) as visit, asking(shown) as api:
        token = token_on(visit.get(f"{page}?trace={present}").text)
        for traces, status in (([present, f"{'f' * 32}."], 400), ([present], 303)):
            fields = {"csrf": token, "name": "whole", "expectation": "none", "trace": traces}
            assert visit.client.post(visit.origin + page, data=fields).status_code == status
            made = [each for each in api.ask("GET", "datasets") if each["name"] == "whole"]
            assert len(made) == (status == 303)
        many = visit.client.post(visit.origin + page, data={"csrf": token, "trace": [present] * 200})
        assert (many.status_code, "more than 200 fields" in many.text) == (400, True)


def test_a_chosen_trace_is_judged_by_a_rule(shown: Shown, browser: "Browser") -> None:
    """The page asks which rule, and the rule judges the chosen trace and no other."""
    rule = own_rule(shown)
    with a_page(browser, shown.origin) as watch:
        watch.open("/traces?status=error&project=sample")
        choose(watch, rows=1, action="Evaluate")
        assert (watch.scan(), watch.sideways() <= 0) == ([], True)
        watch.page.get_by_label("Rule").select_option(rule)
        watch.page.get_by_role("button", name="Evaluate").click()
        watch.page.wait_for_url(f"**/rules/{rule}#backfills")
        assert watch.page.get_by_text("of 1 selected trace").is_visible()
    judged = f"SELECT DISTINCT trace_id FROM evaluations WHERE rule_id = '{rule}'"
    rows = until(lambda: shown.running.store.queries.sql(judged, max_rows=9, timeout_s=10).rows, bool)
    assert [trace_id for (trace_id,) in rows] == [shown.sample.trace_ids[2]]


def test_a_rule_must_be_chosen(shown: Shown) -> None:
    """Without one the form comes back with the traces that it is about, and says so beside the field."""
    trace = f"{shown.trace_id}."
    with Visit(shown.origin) as visit:
        answer = visit.send(f"/traces/chosen/evaluate?trace={trace}", "/traces/chosen/evaluate", trace=trace, rule="")
        assert (answer.status_code, 'id="f-rule-wrong"' in answer.text) == (400, True)
        assert f'name="trace" value="{trace}"' in answer.text


def test_chosen_traces_go_to_a_review_queue(shown: Shown) -> None:
    """The queue's form is filled with their ids."""
    queue = a_review(shown).split("/")[2]
    first, second, _ = shown.sample.trace_ids
    with Visit(shown.origin) as visit:
        text = visit.get(f"/review/add?trace={first}.&trace={second}.").text
        (place,) = set(re.findall(rf'href="(/review/{queue}/add[^"]*)"', text))
        form = visit.get(unescape(place)).text
        assert f"{first} {second}" in form
        assert visit.send(unescape(place), f"/review/{queue}/add", targets=f"{first} {second}").status_code == 303


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """Yield a server with keys, and traces of two tenants and of none."""
    with a_closed_server(tmp_path_factory.mktemp("chosen") / "data") as server:
        url = f"http://{server.running.otlp_http}/v1/traces"
        for number, key in enumerate(("ingest", "ingest of acme", "ingest of other")):
            for place in range(3):
                export = an_export(f"{number + 1}{place}" * 16, f"step {place}", project="shop", at_s=place)
                content, kind = export.SerializeToString(), {"content-type": PROTOBUF}
                assert request(url, "POST", key=server.keys[key], content=content, headers=kind).is_success
        server.running.store.wait_committed(30)
        server.running.traces.wait_idle(30)
        yield server


def signed_in(server: Closed, name: str) -> Visit:
    """Sign in with a key; return the browser."""
    visit = Visit(f"http://{server.running.http}")
    assert visit.send("/sign-in", "/sign-in", key=server.keys[name]).status_code == 303
    return visit


def test_each_is_offered_what_he_may_do_with_chosen_traces(closed: Closed) -> None:
    """A viewer chooses nothing, an editor deletes nothing, and an action that is not offered is refused."""
    offered = {
        "viewer of acme": [],
        "editor of acme": ["Add to a dataset", "Evaluate", "Add to a review queue"],
        "admin of acme": ["Add to a dataset", "Evaluate", "Add to a review queue", "Delete"],
    }
    for name, actions in offered.items():
        with signed_in(closed, name) as visit:
            text = visit.get("/traces").text
            assert re.findall(r"<button formaction=[^>]+>([^<]+)", text) == actions
            assert ('name="trace"' in text) is bool(actions)
            may = [visit.get(f"/traces/chosen/{what}").status_code for what in ("dataset", "evaluate", "delete")]
            assert may == [200 if actions else 403] * 2 + [200 if "Delete" in actions else 403]


def test_chosen_traces_are_deleted_after_a_question(closed: Closed) -> None:
    """A tenant deletes its own among the chosen traces, after confirming; traces without a tenant stay."""
    own, shared = ["20" * 16, "21" * 16], "10" * 16
    query = "&".join(f"trace={trace}.acme" for trace in own) + f"&trace={shared}."
    with signed_in(closed, "admin of acme") as visit:
        question = visit.get(f"/traces/chosen/delete?{query}").text
        assert "Delete 2 traces" in question
        assert len(listed(visit, "/traces")) == 6
        named = [*(f"{trace}.acme" for trace in own), f"{shared}."]
        fields = {"csrf": token_on(question), "trace": named}
        sent = visit.client.post(f"{visit.origin}/traces/chosen/delete", data=fields)
        assert (sent.status_code, sent.headers["location"]) == (303, "/traces")
        left = until(lambda: listed(visit, "/traces"), lambda traces: len(traces) == 4)
        assert not set(own) & set(left)
        assert shared in left
    everything = closed.ask("GET", "/api/v1/traces?size=50", key=OPERATOR_KEY).json()["content"]
    assert len(everything) == 7


def test_what_is_no_trace_is_refused(shown: Shown) -> None:
    """Malformed trace references, and too many traces at once, are refused."""
    with Visit(shown.origin) as visit:
        for wrong in ("trace=x", f"trace={'a' * 32}.&trace=1", "&".join(f"trace={n:032x}." for n in range(101))):
            assert visit.get(f"/traces/chosen/delete?{wrong}").status_code == 400
        for what in ("dataset", "evaluate", "delete"):
            assert visit.send("/traces/views/new", f"/traces/chosen/{what}").status_code == 400
            assert "No traces selected" in visit.get(f"/traces/chosen/{what}").text
